package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/objdb"
)

// keys prints every key below prefixes with a digest of its value, one per line: equal outputs mean equal content.
func keys(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("keys", flag.ContinueOnError)
	ca := flags.String("ca", "", "authorities of etcd")
	cert := flags.String("cert", "", "certificate to show it")
	key := flags.String("key", "", "its key")
	ring := flags.String("keyring", "", "directory with the keys of values that are encrypted")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() < 2 {
		return errors.New("keys: want etcd URLs, comma separated, and prefixes")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cfg := objdb.Config{Endpoints: strings.Split(flags.Arg(0), ","), CAFile: *ca, CertFile: *cert, KeyFile: *key}
	if *ring != "" {
		cfg.Values = keyring.In(*ring).Values()
	}
	db, err := objdb.Open(cfg)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, prefix := range flags.Args()[1:] {
		kvs, _, err := db.List(ctx, prefix)
		if err != nil {
			return err
		}
		for _, kv := range kvs {
			fmt.Printf("%s %x\n", kv.Key, sha256.Sum256(kv.Value))
		}
	}
	return nil
}

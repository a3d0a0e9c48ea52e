package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/durable"
	"github.com/contiv/netplugin/utils/retry"
)

// A node that reads the state through netmasters tracks their addresses: those configured, and those registered,
// which it stores for its next start. So all of them may be replaced, one after the other, without changes to the
// flags of nodes.

const (
	mastersFile = "netmasters" // beside the certificate; one URL per line

	// Intervals of look-ups: netmasters of a new cluster are added one after the other.
	mastersSoon = time.Second
	mastersLate = 20 * time.Second
)

// recallMasters returns the netmasters that were registered at the last look-up.
func recallMasters(o *options) (urls []string) {
	content, err := os.ReadFile(filepath.Join(o.join.dir, mastersFile))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "https://") && !slices.Contains(o.masters, line) {
			urls = append(urls, line)
		}
	}
	return urls
}

// followMasters keeps the client's list of netmasters up to date.
func followMasters(o *options, db *objdb.DB) task {
	log := logrus.WithField("component", "netmasters")
	return func(ctx context.Context) error {
		kept := recallMasters(o)
		for pace := retry.NewPacer(mastersSoon, mastersLate); ctx.Err() == nil; pace.Sleep(ctx) {
			addresses, err := registered(ctx, db)
			if err != nil || len(addresses) == 0 {
				continue // the known ones remain in use
			}
			var others []string
			for _, a := range addresses {
				if there := "https://" + a; !slices.Contains(o.masters, there) {
					others = append(others, there)
				}
			}
			slices.Sort(others)
			if slices.Equal(others, kept) {
				continue
			}
			if err := db.SetEndpoints(append(slices.Clone(o.masters), others...)...); err != nil {
				log.WithError(err).Warn("a registered netmaster has no address that can be used")
				continue
			}
			if err := durable.Write(filepath.Join(o.join.dir, mastersFile), []byte(strings.Join(others, "\n")+"\n")); err != nil {
				log.WithError(err).Warn("which netmasters there are is not known at the next start")
				continue
			}
			log.WithField("netmasters", others).Info("netmasters beside those of --netmasters")
			kept = others
			pace.Reset()
		}
		return nil
	}
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// get prints the response of a URL; any status but 200 is a failure.
func get(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("http", flag.ContinueOnError)
	wait := flags.Duration("wait", 5*time.Second, "how long to wait for the answer")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("http: want one URL")
	}
	url := flags.Arg(0)
	ctx, cancel := context.WithTimeout(ctx, *wait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(os.Stdout, io.LimitReader(res.Body, 1<<20)); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, res.Status)
	}
	return nil
}

// Command netctl controls the networks, groups and policies of a cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/contiv/netplugin/netctl"
)

func main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		received := <-signals
		signal.Stop(signals) // a second signal ends the program at once
		cancel(netctl.Interrupted(received.(syscall.Signal)))
	}()
	os.Exit(netctl.Run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr))
}

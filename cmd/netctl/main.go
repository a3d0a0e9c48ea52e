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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := netctl.Run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Command netplugin is the agent of a node: it programs Open vSwitch with the state that netmaster has written to
// the store, and attaches containers.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/contiv/netplugin/utils/daemonflags"
	"github.com/contiv/netplugin/utils/timerslack"
)

func main() {
	if err := timerslack.Rerun(); err != nil {
		fmt.Fprintf(os.Stderr, "netplugin: %v; going on without\n", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(run).Run(ctx, os.Args)
	stop()
	os.Exit(exitCode(err))
}

// exitCode reports an error on stderr and returns the exit code.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "netplugin: %v\n", err)
	var wrong *configError
	if errors.As(err, &wrong) {
		return daemonflags.ExitCode(wrong)
	}
	return 1
}

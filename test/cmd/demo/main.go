// Demo starts an enforced cluster of three nodes and three netmasters on this machine, with a physical network,
// demonstrates both parts of the project with real pods and real packets, and cleans up.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/contiv/netplugin/test/scenario"
	"github.com/contiv/netplugin/test/testbed"
)

// limit ends a demo that hangs, and is the maximum duration.
const limit = 4 * time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := demo(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context) (err error) {
	bed, err := testbed.New(ctx, testbed.Config{Nodes: 3, Uplinks: 1, Secure: true, Log: os.Stdout})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			bed.DumpLogs(os.Stderr)
		}
		err = errors.Join(err, bed.Close())
	}()
	if err := bed.StartDaemons(ctx); err != nil {
		return err
	}
	for _, n := range bed.Nodes {
		if err := n.WaitWayOut(ctx); err != nil {
			return err
		}
	}
	report, err := scenario.Run(ctx, bed, os.Stdout, scenario.MainJob, scenario.SecondAct)
	if _, writeErr := report.WriteTo(os.Stdout); writeErr != nil {
		return writeErr
	}
	if err == nil && len(report.Failed) > 0 {
		err = fmt.Errorf("%d checks failed", len(report.Failed))
	}
	return err
}

// Bench measures the figures the project promises, each against a reference
// taken in the same run on the same machine, and prints them as a table:
//
//	bench             all of them, on a bed of three nodes
//	bench cni tcp     only those
//
// What measures netmaster alone runs inside the leader's node, as "bench inside".
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

// limit ends a run that hangs.
const limit = 20 * time.Minute

// figure is a line of the table: a measured value, its reference and the goal.
type figure struct {
	Name      string
	Value     string
	Reference string
	Ratio     string
	Goal      string
	Met       bool
}

// benchmark is one measurement on a bed whose daemons are ready.
type benchmark struct {
	name string
	run  func(context.Context, *testbed.Bed) ([]figure, error)
}

var benchmarks = []benchmark{
	{"endpoints", insideLeader("endpoints")},
	{"cni", benchCNI},
	{"tcp", benchTCP},
	{"rule", benchRule},
	{"apply", insideLeader("apply")},
	{"list", insideLeader("list")},
	{"growth", insideLeader("growth")},
	{"memory", benchMemory},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var err error
	if len(os.Args) > 1 && os.Args[1] == "inside" {
		err = runInside(ctx, os.Args[2:], os.Stdout)
	} else {
		err = runAll(ctx, os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func runAll(ctx context.Context, only []string) (err error) {
	for _, name := range only {
		if !slices.ContainsFunc(benchmarks, func(b benchmark) bool { return b.name == name }) {
			return fmt.Errorf("no benchmark %q", name)
		}
	}
	bed, err := testbed.New(ctx, testbed.Config{Nodes: 3, Log: os.Stdout})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	if err := bed.StartDaemons(ctx); err != nil {
		return err
	}
	var figures []figure
	for _, b := range benchmarks {
		if len(only) > 0 && !slices.Contains(only, b.name) {
			continue
		}
		fmt.Println("measuring", b.name)
		f, err := b.run(ctx, bed)
		if err != nil {
			bed.DumpLogs(os.Stderr)
			return fmt.Errorf("%s: %w", b.name, err)
		}
		figures = append(figures, f...)
	}
	return printFigures(figures)
}

func printFigures(figures []figure) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nFIGURE\tMEASURED\tREFERENCE\tRATIO\tGOAL\t")
	for _, f := range figures {
		verdict := "met"
		if !f.Met {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", f.Name, f.Value, f.Reference, f.Ratio, f.Goal, verdict)
	}
	return w.Flush()
}

// netctlAll runs netctl commands in order and stops at the first that fails.
func netctlAll(ctx context.Context, bed *testbed.Bed, commands ...[]string) error {
	for _, c := range commands {
		if _, err := bed.Netctl(ctx, c...); err != nil {
			return err
		}
	}
	return nil
}

// Package e2e plays whole stories on the test bed: real binaries, real Open
// vSwitch, real etcd, real CNI runtime, real packets.
package e2e

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/scenario"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// newBed starts a cluster whose daemons are ready.
func newBed(t *testing.T, cfg testbed.Config) (context.Context, *testbed.Bed) {
	t.Helper()
	ctx, bed := newBareBed(t, cfg)
	startDaemons(t, ctx, bed)
	return ctx, bed
}

// startDaemons starts the daemons and returns once they have created their own objects.
func startDaemons(t *testing.T, ctx context.Context, bed *testbed.Bed, netplugin ...string) {
	t.Helper()
	if err := bed.StartDaemons(ctx, netplugin...); err != nil {
		t.Fatal(err)
	}
	for _, n := range bed.Nodes {
		if err := errors.Join(n.WaitWayOut(ctx), n.WaitAddresses(ctx)); err != nil {
			t.Fatal(err)
		}
	}
}

// bedLimit bounds the life of a bed.
const bedLimit = 5 * time.Minute

// newBareBed starts nodes without daemons, and shows their logs if the test
// fails.
func newBareBed(t *testing.T, cfg testbed.Config) (context.Context, *testbed.Bed) {
	t.Helper()
	return newBareBedFor(t, bedLimit, cfg)
}

// newBareBedFor is newBareBed for a test of another length.
func newBareBedFor(t *testing.T, limit time.Duration, cfg testbed.Config) (context.Context, *testbed.Bed) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	cfg.Log = t.Output()
	bed, err := testbed.New(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			bed.DumpLogs(t.Output())
		}
		if err := bed.Close(); err != nil {
			t.Error(err)
		}
	})
	return ctx, bed
}

func TestTheMainJobIsDoneOnThreeNodes(t *testing.T) {
	ctx, bed := newBed(t, testbed.Config{Nodes: 3, Secure: true, First: true})
	play(t, ctx, bed, scenario.MainJob)
}

// demoLimit is how long `make demo` may take.
const demoLimit = 4 * time.Minute

// What `make demo` shows.
func TestLongBothActsOfTheDemoArePlayed(t *testing.T) {
	testkit.TakesLong(t)
	began := time.Now()
	ctx, bed := newBed(t, testbed.Config{Nodes: 3, Uplinks: 1, Secure: true})
	play(t, ctx, bed, scenario.MainJob, scenario.SecondAct)
	if took := time.Since(began); took > demoLimit {
		t.Errorf("the demo took %v, want %v at most", took, demoLimit)
	}
}

// play plays acts, and fails the test for each of their checks that fails.
func play(t *testing.T, ctx context.Context, bed *testbed.Bed, acts ...scenario.Act) {
	t.Helper()
	report, err := scenario.Run(ctx, bed, t.Output(), acts...)
	if err != nil {
		t.Fatal(err)
	}
	for _, failed := range report.Failed {
		t.Error(failed)
	}
	if report.Passed == 0 {
		t.Error("nothing was checked")
	}
	if _, err := report.WriteTo(t.Output()); err != nil {
		t.Error(err)
	}
}

package ovsd

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// Open vSwitch is not there at all.
func TestNothingPilesUpWhileTheSwitchIsAway(t *testing.T) {
	d, err := New(Config{RunDir: t.TempDir(), VTEP: netip.MustParseAddr("192.0.2.1")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	for i := range 50 {
		d.Update(drivers.Change{Replace: i == 0, Set: []pipeline.Object{rule(i, 50)}})
		waiting, stop := context.WithTimeout(ctx, time.Millisecond)
		if err := d.Sync(waiting, rule(i, 50).Key()); !fault.Is(err, fault.Unavailable) {
			t.Errorf("Sync without a switch: %v", err)
		}
		stop()
	}
	testkit.Eventually(t, 20*time.Second, "changes are taken", d.inbox.settled)
	if n := len(d.inbox.waiting); n != 0 {
		t.Errorf("%d tickets of callers who have gone", n)
	}
	cancel()
	<-ended
}

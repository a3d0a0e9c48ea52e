package ovsd

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

func TestChangesAreTakenWhileOpenVSwitchIsNotThere(t *testing.T) {
	d, err := New(Config{RunDir: t.TempDir(), VTEP: netip.MustParseAddr("192.0.2.1")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	for i := range 50 {
		rule := pipeline.Rule{ID: fmt.Sprint("r", i), SrcPort: uint16(i + 1), DstPort: 50}
		d.Update(drivers.Change{Replace: i == 0, Set: []pipeline.Object{rule}})
		waiting, stop := context.WithTimeout(ctx, time.Millisecond)
		if err := d.Sync(waiting, rule.Key()); !fault.Is(err, fault.Unavailable) {
			t.Errorf("Sync without a switch: %v", err)
		}
		stop()
	}
	testkit.Eventually(t, 20*time.Second, "changes are taken", d.programmer.Settled)
	cancel()
	<-ended
}

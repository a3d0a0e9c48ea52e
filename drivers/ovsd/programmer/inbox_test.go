package programmer

import (
	"context"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

func TestNothingPilesUpWhileTheSwitchIsAway(t *testing.T) {
	p := (&harness{t: t, inbox: newInbox(), chunk: defaultChunk, audit: time.Hour, ports: noPorts{}, compiler: ruleCompiler{}}).programmer()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	for i := range 50 {
		p.Update(drivers.Change{Replace: i == 0, Set: []pipeline.Object{rule(i, 50)}})
		waiting, stop := context.WithTimeout(ctx, time.Millisecond)
		if err := p.Sync(waiting, rule(i, 50).Key()); !fault.Is(err, fault.Unavailable) {
			t.Errorf("Sync without a switch: %v", err)
		}
		stop()
	}
	testkit.Eventually(t, 20*time.Second, "changes are taken", p.Settled)
	if n := len(p.inbox.waiting); n != 0 {
		t.Errorf("%d tickets of callers who have gone", n)
	}
	cancel()
	<-ended
}

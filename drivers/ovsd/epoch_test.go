package ovsd_test

import (
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Each connection is evaluated again in each epoch; connections that are allowed in all epochs lose no packet.
func TestAnotherEpochCostsNoAllowedPacket(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	for i, p := range []*pod{a, b} {
		p.endpoint.Class, p.endpoint.Tiers = uint16(i+1), pipeline.JudgesOut|pipeline.IsolatesOut|pipeline.JudgesIn|pipeline.IsolatesIn
	}
	r.give(everything(a, b))
	epoch := pipeline.Epoch{}
	next := func() {
		epoch.Number++
		r.give(drivers.Change{Set: []pipeline.Object{epoch}})
	}
	next()
	for i, out := range []bool{true, false} {
		r.give(drivers.Change{Set: []pipeline.Object{pipeline.TierRule{ID: string(rune('a' + i)), Tier: pipeline.PolicyTier, Out: out, Number: uint32(i + 1),
			Subjects: []uint16{uint16(i + 1)}, AnyPeer: true}}})
	}
	eventually(t, "the rules count", func() bool {
		return a.command("ping", "-c", "1", "-W", "1", b.endpoint.IPv4.String()).Run() == nil
	})
	losesNothing(t, a, b, 5, next)
}

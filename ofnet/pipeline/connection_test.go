package pipeline

import (
	"net/netip"
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
)

// The remaining connections of a group are found by processing each of its buckets once, not by comparing each
// bucket with each ending connection: for two hundred thousand that would take a minute.
func TestWhatRemainsOfAGroupIsFoundByOneLookAtEachBucket(t *testing.T) {
	const many, enough = 200_000, 10 * time.Second
	o, p := shop(), ServicePort{Address: vip, Protocol: openflow.ProtoTCP, Port: 80}
	g := openflow.Group{ID: groupServices, Type: openflow.GroupSelect}
	for i := range many {
		provider := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		g.Buckets = append(g.Buckets, openflow.Bucket{Weight: 1, Actions: o.choice(p, netip.AddrPortFrom(provider, 8080))})
	}
	ends := Connections(g)[many/2:]
	var rest openflow.Group
	if took := testkit.Processor(t, func() { rest = Ending(g, ends) }); took > enough {
		t.Errorf("%d buckets took %v", many, took)
	}
	if len(rest.Buckets) != many-many/2 || rest.ID != g.ID || rest.Buckets[0].Weight != 0 || g.Buckets[0].Weight != 1 {
		t.Errorf("group %d with %d buckets remains, the first of weight %d", rest.ID, len(rest.Buckets), rest.Buckets[0].Weight)
	}
}

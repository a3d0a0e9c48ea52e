package ovsd_test

import (
	"net/netip"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// If an endpoint was recreated with another address while no driver ran, the next driver flushes the connections
// of its old address, which another endpoint has by then; those of an address that it has kept remain.
func TestConnectionsOfAnAddressThatAnEndpointLostWhileNoDriverRanAreEnded(t *testing.T) {
	n := newNode(t)
	r := n.start()
	pods, _, all, tracked := n.track(r)
	a, b := pods[0], pods[1]
	kept := tracked(a.endpoint.IPv6)
	r.stop()

	again, next := a.endpoint, endpoint(8, 0)
	again.IPv4 = netip.MustParseAddr("10.1.0.77")
	next.IPv4, next.IPv6, next.Tiers = a.endpoint.IPv4, netip.Addr{}, pipeline.Tracked
	r = n.start()
	r.add(next.ID)
	for i, o := range all.Set {
		if o.Key() == again.Key() {
			all.Set[i] = again
		}
	}
	r.give(drivers.Change{Replace: true, Set: append(all.Set, next), Known: []string{}})
	eventually(t, "nothing is tracked of the address it had", func() bool { return tracked(a.endpoint.IPv4) == 0 })
	if got := tracked(a.endpoint.IPv6); got != kept || kept == 0 {
		t.Errorf("%d addresses are tracked of the one it has kept, want %d:\n%s", got, kept, n.Appctl("dpctl/dump-conntrack"))
	}
	if tracked(b.own()...) == 0 {
		t.Error("nothing is tracked of one that has not changed")
	}
}

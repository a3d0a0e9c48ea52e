package ovsd_test

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// What is known of the connections of an endpoint that goes is forgotten, in both zones that have them
// and in both directions; those of others stay.
func TestConnectionsOfAnEndpointThatGoesAreEnded(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a, b, c := n.newPod(r, 1), n.newPod(r, 2), n.newPod(r, 3)
	for _, p := range []*pod{a, b, c} {
		p.endpoint.Tiers = pipeline.Tracked
	}
	r.give(everything(a, b, c))
	pings := func(from, to *pod) { from.exec("ping", "-c", "1", "-W", "5", to.endpoint.IPv4.String()) }
	pings(a, b)
	pings(c, a)
	pings(b, c)
	tracked := func(p *pod) int {
		return strings.Count(n.Appctl("dpctl/dump-conntrack"), "="+p.endpoint.IPv4.String()+",")
	}
	before := [3]int{tracked(a), tracked(b), tracked(c)}
	if before != [3]int{4, 4, 4} {
		t.Fatalf("%v addresses are tracked, want both ends of two connections each:\n%s", before, n.Appctl("dpctl/dump-conntrack"))
	}
	if err := r.EndConnections(t.Context(), network.VRF, a.endpoint.IPv4); err != nil {
		t.Fatal(err)
	}
	if left := [3]int{tracked(a), tracked(b), tracked(c)}; left != [3]int{0, 2, 2} {
		t.Errorf("%v addresses are tracked, want 0, 2, 2:\n%s", left, n.Appctl("dpctl/dump-conntrack"))
	}
}

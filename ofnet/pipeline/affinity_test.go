package pipeline

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// Every connection of a client, to any address of the service, gets the provider that the
// first one got; and the host's clients are told apart.
func TestAClientKeepsItsProvider(t *testing.T) {
	c := startCluster(t, db1, web1, web2)
	s := serving(FromPods|FromHost, addressesOf(web1, web2), external, vip6)
	s.Affinity = 600
	host := c.withOutside(db1, s)
	host.route(external)
	for _, e := range []Endpoint{web1, web2} {
		c.pod(e).serveShop()
	}
	for _, test := range []struct {
		who  *pod
		at   netip.Addr
		from []netip.Addr
	}{{c.pod(db1), external, nil}, {c.pod(db1), vip6, nil}, {host, external, []netip.Addr{beyond[0]}}} {
		for kind, port := range map[string]int{"tcp": 80, "udp": 53} {
			// Another process: its first connection may have come before the datapath knew of
			// what was learned. By chance all would be the same 1 time in 128.
			first, _, _ := strings.Cut(test.who.requests(test.at, kind, port, "hello", test.from...), " ")
			for _, got := range test.who.requestsTimes(7, test.at, kind, port, "hello", test.from...) {
				if provider, _, _ := strings.Cut(got, " "); provider != first || strings.HasPrefix(got, "error") {
					t.Errorf("%s at %s by %s: %s, after %s", test.who.ID, test.at, kind, got, first)
				}
			}
		}
	}
	n := c.pod(db1).node
	learned := n.Ofctl("dump-flows", bridge, fmt.Sprintf("table=%d", tableAffinity))
	if got := strings.Count(learned, "idle_timeout=600, priority=100"); got != 6 {
		t.Errorf("%d clients are remembered, want 6:\n%s", got, learned)
	}
	// Providers' own answers to long questions, in fragments.
	for range 2 {
		if got := c.pod(db1).requests(external, "udp", 53, strings.Repeat("y", 4000)); strings.HasPrefix(got, "error") {
			t.Errorf("long question: %s", got)
		}
	}
}

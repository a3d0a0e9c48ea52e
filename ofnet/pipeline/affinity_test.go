package pipeline

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
)

// keepsProvider sends a client's request to a service with affinity, and then some more, which must have the same
// provider.
func (p *pod) keepsProvider(t *testing.T, times int, at netip.Addr, kind string, port int, from ...netip.Addr) {
	t.Helper()
	first, _, _ := strings.Cut(p.requests(at, kind, port, "hello", from...), " ")
	// The next connection may arrive before the datapath uses the learned flow.
	p.node.Appctl("revalidator/wait")
	for _, got := range p.requestsTimes(times, at, kind, port, "hello", from...) {
		if provider, _, _ := strings.Cut(got, " "); provider != first || strings.HasPrefix(got, "error") {
			t.Errorf("%s at %s by %s: %q, after %q", p.ID, at, kind, got, first)
		}
	}
}

// Every connection of a client, to any address of the service, gets the provider of the first one; the host's
// clients are distinguished.
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
			test.who.keepsProvider(t, 7, test.at, kind, port, test.from...) // by chance all would be the same 1 time in 128
		}
	}
	n := c.pod(db1).node
	learned := n.Ofctl("dump-flows", bridge, fmt.Sprintf("table=%d", tableAffinity))
	if got := strings.Count(learned, "idle_timeout=600, priority=100"); got != 6 {
		t.Errorf("%d clients are remembered, want 6:\n%s", got, learned)
	}
	// Long answers of the providers themselves, in fragments.
	for range 2 {
		if got := c.pod(db1).requests(external, "udp", 53, strings.Repeat("y", 4000)); strings.HasPrefix(got, "error") {
			t.Errorf("long question: %s", got)
		}
	}
}

// A client that returns before its timeout is remembered from then on: the learned flow lasts longer than the
// timeout. One that does not return is forgotten.
func TestAClientThatComesAgainIsRememberedFromThenOn(t *testing.T) {
	c := startCluster(t, db1, web1, web2)
	s := serving(FromPods, addressesOf(web1, web2), external)
	s.Affinity = 3
	c.withOutside(db1, s)
	for _, e := range []Endpoint{web1, web2} {
		c.pod(e).serveShop()
	}
	client := c.pod(db1)
	remembered := func() (seconds float64, is bool) {
		_, text, is := strings.Cut(client.node.Ofctl("dump-flows", bridge, fmt.Sprintf("table=%d", tableAffinity)), "duration=")
		if _, err := fmt.Sscanf(text, "%f", &seconds); is && err != nil {
			t.Fatal(text)
		}
		return seconds, is
	}
	testkit.Eventually(t, time.Minute, "a client that comes again and again is remembered for twice its time", func() bool {
		client.requests(external, "tcp", 80, "hello")
		seconds, _ := remembered()
		return seconds > float64(2*s.Affinity)
	})
	testkit.Eventually(t, time.Minute, "one that stays away is forgotten", func() bool {
		_, is := remembered()
		return !is
	})
}

// All addresses of a port share the memory of its clients, whichever providers it has at the moment.
func TestAPortsClientsAreRememberedByItsName(t *testing.T) {
	s := kubeWeb()
	for i := range s.Ports {
		s.Ports[i].Name = map[uint8]string{openflow.ProtoTCP: "http", openflow.ProtoUDP: "dns"}[s.Ports[i].Protocol]
	}
	s = s.Numbered(noneTaken)
	numbers := map[uint32]int{}
	for _, p := range s.Ports {
		before := indexService(s).remembered(p)
		numbers[before]++
		p.Serving, p.Draining = p.Serving[:0], p.Serving
		if now := indexService(s).remembered(p); now != before {
			t.Errorf("port %s at %s is remembered by %d, and by %d after a change of its providers", p.Name, p.Address, before, now)
		}
	}
	if len(numbers) != 4 { // two names, each of IPv4 and IPv6
		t.Errorf("ports are remembered by %v, want one number for each name and version of IP", numbers)
	}
}

// A client keeps its provider even if the sets of providers differ: internal clients may have any, external ones a
// set of their own.
func TestAClientKeepsItsProviderOfThoseForWhereItComesFrom(t *testing.T) {
	s := kubeWeb()
	s.Affinity = 600
	c := startCluster(t, web1, db1, web2)
	host := c.withOutside(web1, s)
	for _, e := range []Endpoint{web1, web2} {
		c.pod(e).serveShop()
	}
	for i, at := range []netip.Addr{external, external6} {
		host.route(at)
		for kind, port := range map[string]int{"tcp": 80, "udp": 53} {
			for _, got := range host.requestsTimes(20, at, kind, port, "hello", beyond[i]) {
				if !strings.HasPrefix(got, web1.ID+" "+beyond[i].String()+" ") {
					t.Errorf("from outside by %s: %q", kind, got)
				}
			}
			c.pod(db1).keepsProvider(t, 20, at, kind, port)
		}
	}
}

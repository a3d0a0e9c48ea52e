package pipeline

import (
	"net/netip"
	"strings"
	"testing"
)

// In bridged networks the gateway is an external one. Endpoints of two tenants with one address, and of a network
// with flooded ARP, query the well-known address.
func TestBridgedPodsAskTheWellKnownAddress(t *testing.T) {
	c := startCluster(t, lan1, lr1, hub1)
	c.withNames(lan1)
	for _, e := range []Endpoint{lan1, lr1, hub1} {
		p := c.pod(e)
		for _, prefix := range NamesPrefixes() {
			server := NamesServer(prefix)
			if _, err := p.exec("ip", "route", "add", server.String(), "dev", "eth0"); err != nil {
				t.Fatal(err)
			}
			if got := p.pinged(server); got != freshTTL {
				t.Errorf("%s pings %s: TTL %d, want %d (0: no answer)", e.ID, server, got, freshTTL)
			}
			for _, network := range []string{"udp", "tcp"} {
				want := network + " " + NamesAsker(prefix, p.port).String()
				if got := p.asks(network, server); got != want {
					t.Errorf("%s at port %d asks %s: %s, want %s", e.ID, p.port, server, got, want)
				}
			}
		}
	}
}

// A pod without a route to the address sends queries through its router: any destination MAC is accepted. Nothing
// else is served at the address.
func TestOnlyTheWellKnownAddressIsTakenInABridgedNetwork(t *testing.T) {
	c := startCluster(t, lan1, lan3, lr1)
	c.withNames(lan1)
	n, port, p := c.pod(lan1).node, c.pod(lan1).port, NamesPrefixes()[0]
	server := NamesServer(p)
	router := mac{2, 2, 10, 1, 4, 254}
	ask := packet{inPort: port, src: lan1.MAC, dst: AnycastMAC, from: lan1.IPv4, to: server, kind: "udp,nw_ttl=64,udp_dst=53"}
	want := n.verdict(t, ask)
	if want == "drop" {
		t.Error("a question is dropped")
	}
	byRouter := ask
	byRouter.dst = router
	if got := n.verdict(t, byRouter); got != want {
		t.Errorf("by way of a router, a question goes to %s, want %s", got, want)
	}
	for name, change := range map[string]func(*packet){
		"another port":      func(p *packet) { p.kind = "udp,nw_ttl=64,udp_dst=54" },
		"by broadcast":      func(p *packet) { p.dst, p.kind = broadcast, "udp,nw_ttl=64,udp_dst=54" },
		"at a pod's MAC":    func(p *packet) { p.dst, p.kind = lan3.MAC, "udp,nw_ttl=64,udp_dst=54" },
		"in another's name": func(p *packet) { p.from = lan3.IPv4 },
		"the gateway's MAC": func(p *packet) { p.to = lanBlue.Gateway },
		"over TCP":          func(p *packet) { p.kind = "tcp,nw_ttl=64,tcp_dst=54" },
		"the server from another port": func(x *packet) {
			x.inPort, x.from, x.to, x.kind = exampleNamesPort, server, NamesAsker(p, port), "udp,nw_ttl=64,udp_src=54"
		},
		"the server to the network": func(x *packet) {
			x.inPort, x.from, x.to, x.dst, x.kind = exampleNamesPort, server, lan1.IPv4, broadcast, "udp,nw_ttl=64,udp_src=53"
		},
	} {
		odd := ask
		change(&odd)
		if got := n.verdict(t, odd); got != "drop" {
			t.Errorf("%s: %s", name, got)
		}
	}
	// Queries to the network's router pass unchanged.
	toRouter := ask
	toRouter.dst, toRouter.to = router, lanBlue.Gateway
	if got := n.verdict(t, toRouter); got == "drop" || got == want {
		t.Errorf("a question for the network's own gateway goes to %s", got)
	}
	// Another node's packet for the address is treated like one for an unused address.
	arrival := ask
	arrival.inPort, arrival.vni, arrival.src = exampleTunnelPort, lanBlue.VNI, lan2.MAC
	arrival.from = lan2.IPv4
	if got := n.verdict(t, arrival); got == want {
		t.Errorf("what comes out of the tunnel goes to %s", got)
	}
}

func TestANetworkWithTheWellKnownAddressKeepsIt(t *testing.T) {
	n := lanBlue
	n.Subnet, n.Subnet6 = prefix("169.254.0.0/24"), prefix("fd63:6f6e:7469:7600::/64")
	if got := n.NameServers(); len(got) != 0 {
		t.Errorf("it has name servers %s", got)
	}
	w := Wants{}
	names{port: exampleNamesPort, gateway: AnycastMAC}.network(&w, n)
	for _, f := range w.Flows {
		if text := f.String(); strings.Contains(text, "169.254.0.1,") {
			t.Error(text)
		}
	}
	n.Subnet = prefix("10.1.4.0/24")
	if got, want := n.NameServers(), []netip.Addr{addr("169.254.0.1")}; len(got) != 1 || got[0] != want[0] {
		t.Errorf("with the IPv6 one in its subnet it has %s, want %s", got, want)
	}
}

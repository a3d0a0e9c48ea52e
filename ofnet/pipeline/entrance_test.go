package pipeline

import (
	"net/netip"
	"strings"
	"testing"
)

// Addresses of the example's service for external clients.
var external, external6 = addr("203.0.113.80"), addr("2001:db8:80::1")

// Providers are on the node by which the clients enter, and on another one. The clients are the host's own address
// and an external one, and providers see them unchanged.
func TestAServiceAnswersWhoComesInByTheHost(t *testing.T) {
	c := startCluster(t, web1, db1, web2, red1)
	s := serving(FromPods|FromHost, addressesOf(web1, web2), external, external6)
	host := c.withOutside(web1, s)
	for _, e := range []Endpoint{web1, web2} {
		c.pod(e).serveShop()
	}
	for i, at := range []netip.Addr{external, external6} {
		host.route(at)
		own := OutsideAddress(wayOut.Prefixes()[i], OutsideHost)
		if host.pinged(at) != freshTTL {
			t.Errorf("no ping of %s", at)
		}
		for _, from := range []netip.Addr{own, beyond[i]} {
			for kind, port := range map[string]int{"tcp": 80, "udp": 53} {
				c.askedAs(host, at, kind, port, func(string) netip.Addr { return from }, []netip.Addr{from}, web1, web2)
			}
			if got := host.requestsTimes(3, at, "udp", 53, strings.Repeat("y", 4000), from); len(got) != 3 {
				t.Errorf("long question to %s: %s", at, got)
			}
			for _, got := range host.requestsTimes(3, at, "udp", 53, "long", from) {
				if !strings.Contains(got, at.String()+" 40") {
					t.Errorf("long answer %q", got)
				}
			}
		}
		c.served(db1, at, web1, web2) // and endpoints of the tenant
	}
	// Packets that a provider sends by itself, from the port at which it serves, leave as usual.
	if got := c.pod(web1).pinged(beyond[0]); got != 64 {
		t.Errorf("a provider pings the world: TTL %d", got)
	}
	if got := c.pod(web1).asked(host, beyond[0]); got != OutsideAddress(wayOut.Prefix, c.pod(web1).port).String() {
		t.Errorf("a provider calls as %s", got)
	}
}

// route adds a route to an address by the port to the switch.
func (p *pod) route(to netip.Addr) {
	p.t.Helper()
	if out, err := p.exec("ip", "route", "add", to.String(), "dev", "contivh0"); err != nil {
		p.t.Fatal(out, err)
	}
}

func TestANodePortIsAPortOfTheHost(t *testing.T) {
	c := startCluster(t, web1, web2)
	node := NodePorts(wayOut.Prefix)
	s := Service{ID: "shop:blue", VRF: blueVRF, Tag: webBlue.Tag, Providers: addressesOf(web1, web2), Ports: []ServicePort{
		{Address: node, From: FromHost, Shared: true, Protocol: 6, Port: 30080, Target: 8080},
		{Address: node, From: FromHost, Shared: true, Protocol: 17, Port: 30053, Target: 5353},
	}}.Numbered(noneTaken)
	host := c.withOutside(web1, s)
	for _, e := range []Endpoint{web1, web2} {
		c.pod(e).serveShop()
	}
	for kind, port := range map[string]int{"tcp": 30080, "udp": 30053} {
		c.askedAs(host, node, kind, port, func(string) netip.Addr { return beyond[0] }, []netip.Addr{beyond[0]}, web1, web2)
	}
	n := c.pod(web1).node // by which the clients enter
	for _, provider := range []Endpoint{web1, web2} {
		answers := Served{Provider: provider.IPv4, Address: node, Protocol: 17, Port: 30053, Answers: true}
		if eventually(func() string { return strings.Repeat("counted", int(min(1, n.servedPackets(t, s)[answers]))) }) == "" {
			t.Errorf("what %s answers to a node port is not counted: %v", provider.ID, n.servedPackets(t, s))
		}
	}
	if got := c.pod(web2).node.servedPackets(t, s)[Served{Provider: web2.IPv4, Address: node, Protocol: 17, Port: 30053, Answers: true}]; got > 0 {
		t.Errorf("the provider's node counts %d answers as well", got)
	}
	in := packet{inPort: host.port, src: wayOut.MAC, dst: wayOut.MAC, from: beyond[0], to: node, kind: "tcp,tp_dst=30081"}
	if got := n.verdict(t, in); got == "drop" {
		t.Errorf("a node port that nobody has: %s", got)
	}
	for name, odd := range map[string]packet{
		"an endpoint to the node ports":     {inPort: c.pod(web1).port, src: web1.MAC, dst: AnycastMAC, from: web1.IPv4, to: node, kind: "tcp,tp_dst=30080"},
		"the host to an unknown address":    with(in, func(p *packet) { p.to = external }),
		"the host to a provider's own":      with(in, func(p *packet) { p.to = web1.IPv4 }),
		"the host to the service's own VIP": with(in, func(p *packet) { p.to = vip }),
	} {
		if got := n.verdict(t, odd); got != "drop" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

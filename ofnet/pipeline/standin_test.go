package pipeline

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// The host translates a UDP node port to an address of this port alone, so that all fragments of a datagram reach
// one provider: on this node or another one, evaluated or not, and of a service with affinity. Other ports at that
// address have no service.
func TestADatagramInFragmentsComesToItsNodePort(t *testing.T) {
	web3 := endpoint("web3", webBlue, 3, front)
	c := startCluster(t, web1, web2, web3, red1)
	behind := map[uint16][]Endpoint{30053: {web1}, 30054: {web2}, 30055: {web1, web2, web3}, 30056: {red1}}
	in := NewStandIns(nil, []uint16{30053, 30054, 30055, 30056})
	services := []Service{{ID: "shop:blue", VRF: blueVRF, Tag: webBlue.Tag}, {ID: "stall:blue", VRF: blueVRF, Tag: webBlue.Tag, Affinity: 600}, {ID: "booth:red", VRF: redVRF, Tag: webRed.Tag}}
	of := map[uint16]int{30053: 0, 30054: 0, 30055: 1, 30056: 2}
	for number, providers := range behind {
		for _, private := range wayOut.Prefixes() {
			at, alone := in.NodePort(private, openflow.ProtoUDP, number)
			if !alone {
				t.Fatalf("port %d has no address of its own", number)
			}
			p := ServicePort{Address: at, From: FromHost, Protocol: openflow.ProtoUDP, Port: number}
			for _, e := range providers {
				p.Serving = append(p.Serving, netip.AddrPortFrom(map[bool]netip.Addr{true: e.IPv4, false: e.IPv6}[at.Is4()], 5353))
			}
			services[of[number]].Ports = append(services[of[number]].Ports, p)
		}
	}
	var all []Object
	for _, s := range services {
		all = append(all, s.Numbered(noneTaken))
	}
	host := c.withOutside(web1, all...)
	for _, e := range []Endpoint{web1, web2, web3, red1} {
		c.pod(e).serveShop()
	}
	n := c.pod(web1).node
	at, _ := in.NodePort(wayOut.Prefix, openflow.ProtoUDP, 30053)
	for name, odd := range map[string]packet{
		"an endpoint":                 {inPort: c.pod(web1).port, src: web1.MAC, dst: AnycastMAC, from: web1.IPv4, to: at, kind: "tcp,tp_dst=30053"},
		"an address of nobody":        {inPort: host.port, src: wayOut.MAC, dst: wayOut.MAC, from: beyond[0], to: free(in, wayOut.Prefix), kind: "tcp,tp_dst=30053"},
		"the host's own, by its port": {inPort: host.port, src: wayOut.MAC, dst: wayOut.MAC, from: beyond[0], to: OutsideAddress(wayOut.Prefix, OutsideHost), kind: "tcp,tp_dst=30053"},
	} {
		if got := n.verdict(t, odd); got != "drop" {
			t.Errorf("%s: %s", name, got)
		}
	}
	long := strings.Repeat("y", 4000)
	for _, judged := range []bool{false, true} {
		if judged {
			for i, e := range []Endpoint{web1, web2, web3, red1} {
				c.pod(e).Class, c.pod(e).Tiers = uint16(i+1), JudgesIn
			}
			for _, n := range c.nodes {
				n.replace(t, c.wants(n, append(all, wayOut, Epoch{Number: 5})...).chosen())
			}
		}
		for number, providers := range behind {
			for i, private := range wayOut.Prefixes() {
				at, _ := in.NodePort(private, openflow.ProtoUDP, number)
				got := host.requests(at, "udp", int(number), long, beyond[i])
				provider, _, _ := strings.Cut(got, " ")
				served := false
				for _, e := range providers {
					served = served || e.ID == provider
				}
				if !served || !strings.HasPrefix(got, fmt.Sprint(provider, " ", beyond[i], " ", at)) {
					t.Errorf("judged: %v; port %d of %s: %s", judged, number, at, got)
				}
			}
		}
	}
	if got := host.deniedRequest(at, "udp", 30054, long, beyond[0]); !strings.HasPrefix(got, "error") {
		t.Errorf("another's port is served: %s", got)
	}
}

// free returns an address that stands in for nothing.
func free(in StandIns, private netip.Prefix) netip.Addr {
	taken := map[netip.Addr]bool{}
	for port := range in.nodePorts {
		at, _ := in.NodePort(private, openflow.ProtoUDP, port)
		taken[at] = true
	}
	a := OutsideAddress(private, firstNodePort)
	for taken[a] {
		a = a.Next()
	}
	return a
}

// Numbers depend only on what they stand in for, and no two are equal.
func TestWhatStandsInForWhatFollowsFromWhatThereIs(t *testing.T) {
	var ports []uint16
	var addresses []netip.Addr
	for i := range 300 {
		ports, addresses = append(ports, uint16(30000+i*7)), append(addresses, netip.AddrFrom4([4]byte{192, 0, byte(i >> 8), byte(i)}))
	}
	one := NewStandIns(addresses, ports)
	for i, j := 0, len(ports)-1; i < j; i, j = i+1, j-1 {
		ports[i], ports[j], addresses[i], addresses[j] = ports[j], ports[i], addresses[j], addresses[i]
	}
	if a, p := one.Moved(NewStandIns(addresses, ports)); len(a)+len(p) > 0 {
		t.Errorf("in another order other stand-ins are found for %v and %v", a, p)
	}
	for _, private := range wayOut.Prefixes() {
		seen, alone := map[netip.Addr]bool{}, 0
		for _, a := range addresses {
			if at, has := one.Balancer(private, a); has {
				if seen[at] || !BalancerStandIns(private).Contains(at) {
					t.Errorf("%s stands in for %s", at, a)
				}
				seen[at] = true
			}
		}
		if len(seen) != firstNodePort-firstBalancer {
			t.Errorf("%d addresses have one", len(seen))
		}
		for _, p := range ports {
			at, is := one.NodePort(private, openflow.ProtoUDP, p)
			if is && (seen[at] || !AllStandIns(private).Contains(at) || BalancerStandIns(private).Contains(at)) || !is && at != NodePorts(private) {
				t.Errorf("%s stands in for port %d", at, p)
			}
			if is {
				seen[at], alone = true, alone+1
			}
			if at, is := one.NodePort(private, openflow.ProtoTCP, p); is || at != NodePorts(private) {
				t.Errorf("port %d of TCP is at %s", p, at)
			}
		}
		if alone != nodePortsForParts {
			t.Errorf("%d ports have one", alone)
		}
		for _, other := range []netip.Addr{OutsideAddress(private, OutsideHost), PodsAsHost(private), BeyondNode(private), NodePorts(private), OutsideAddress(private, 0xfeff)} {
			if seen[other] {
				t.Errorf("%s stands in for something", other)
			}
		}
		if !AllStandIns(private).Contains(NodePorts(private)) || AllStandIns(private).Contains(OutsideAddress(private, 0xfeff)) {
			t.Errorf("they are in %s", AllStandIns(private))
		}
	}
	few := NewStandIns(addresses[:2], ports[:2])
	if a, p := few.Moved(NewStandIns(addresses[:1], ports[1:2])); len(a) != 1 || a[0] != addresses[1] && a[0] != addresses[0] || len(p) != 1 {
		t.Errorf("moved are %v and %v", a, p)
	}
	if a, p := NewStandIns(addresses[:1], ports[1:2]).Moved(few); len(a) != 1 || a[0] != addresses[1] || len(p) != 1 || p[0] != ports[0] {
		t.Errorf("removed are %v and %v", a, p)
	}
	if got := few.Balancers(); len(got) != 2 || got[1].Less(got[0]) {
		t.Errorf("addresses that have one: %v", got)
	}
}

// The stand-in of a load balancer's address has ports of services that each limit their clients.
func TestWhatStandsInForAnAddressIsServedAsTheAddress(t *testing.T) {
	c := startCluster(t, web1, web2)
	vips := []netip.Addr{external, external6}
	in := NewStandIns(vips, nil)
	s := Service{ID: "shop:blue", VRF: blueVRF, Tag: webBlue.Tag, Inner: wayOut.Prefixes()}
	for i, private := range wayOut.Prefixes() {
		at, _ := in.Balancer(private, vips[i])
		sources := []netip.Prefix{inet.Host(beyond[i]), inet.Host(OutsideAddress(private, OutsideHost))}
		local := []netip.AddrPort{netip.AddrPortFrom(map[bool]netip.Addr{true: web1.IPv4, false: web1.IPv6}[at.Is4()], 8080)}
		all := append(local, netip.AddrPortFrom(map[bool]netip.Addr{true: web2.IPv4, false: web2.IPv6}[at.Is4()], 8080))
		s.Ports = append(s.Ports, ServicePort{Address: at, From: FromHost, Protocol: openflow.ProtoTCP, Port: 80, Serving: all, Sources: sources},
			ServicePort{Address: at, From: FromOutside, Protocol: openflow.ProtoTCP, Port: 80, Serving: local, Sources: sources},
			ServicePort{Address: at, From: FromHost, Protocol: openflow.ProtoTCP, Port: 81, Serving: all, Sources: sources[1:]})
	}
	host := c.withOutside(web1, s.Numbered(noneTaken))
	for _, e := range []Endpoint{web1, web2} {
		c.pod(e).serveShop()
	}
	for i, private := range wayOut.Prefixes() {
		at, _ := in.Balancer(private, vips[i])
		own := OutsideAddress(private, OutsideHost)
		c.askedAs(host, at, "tcp", 80, func(string) netip.Addr { return own }, []netip.Addr{own}, web1, web2)
		for range 5 {
			if got := host.requests(at, "tcp", 80, "hello", beyond[i]); !strings.HasPrefix(got, fmt.Sprint(web1.ID, " ", beyond[i], " ", at)) {
				t.Errorf("who comes from outside is served by %q, not by the provider of this node", got)
			}
		}
		c.askedAs(host, at, "tcp", 81, func(string) netip.Addr { return own }, []netip.Addr{own}, web1, web2)
		if got := host.deniedRequest(at, "tcp", 81, "hello", beyond[i]); !strings.HasPrefix(got, "error") {
			t.Errorf("who is in no range is served: %s", got)
		}
		if got := host.pinged(at); got != freshTTL {
			t.Errorf("%s: TTL %d", at, got)
		}
	}
}

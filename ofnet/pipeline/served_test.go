package pipeline

import (
	"net/netip"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// servedPackets returns a switch's counters of a service.
func (n *node) servedPackets(t *testing.T, s Service) map[Served]uint64 {
	t.Helper()
	all := map[Served]uint64{}
	for _, filter := range ServedFlows(s.Key()) {
		n.connected(t, func(conn *openflow.Conn) error {
			return conn.EachFlow(t.Context(), filter, func(f openflow.FlowEntry) error {
				if what, ok := ServedBy(f.Flow().Flow); ok {
					all[what] += f.Packets
				}
				return nil
			})
		})
	}
	return all
}

// doubled returns the example's service with two more ports, which have the same target ports.
func doubled(s Service) Service {
	for _, p := range s.Ports {
		p.Port++
		s.Ports = append(s.Ports, p)
	}
	return s.Numbered(noneTaken)
}

// Several ports of a service have the same target port; one provider is on the client's node, one on another.
func TestAnswersAreCountedForThePortThatWasAsked(t *testing.T) {
	c := startCluster(t, db1, web1, web2)
	s := doubled(serving(FromPods, addressesOf(web1, web2), vip, vip6))
	c.program(s)
	n := c.pod(db1).node
	for _, provider := range []Endpoint{web1, web2} {
		c.pod(provider).serveShop()
		for _, at := range provider.addresses() { // direct requests do not count for the service
			if got := c.pod(db1).requests(at, "udp", 5353, "hello"); got[:len(provider.ID)] != provider.ID {
				t.Fatal(got)
			}
		}
	}
	asked := map[Served]bool{}
	ask := func(kind string, protocol uint8, port uint16) {
		t.Helper()
		for _, at := range []netip.Addr{vip, vip6} {
			c.askedAs(c.pod(db1), at, kind, int(port), func(string) netip.Addr { return like(db1, at) }, nil, web1, web2)
			for _, provider := range []Endpoint{web1, web2} {
				asked[Served{Provider: like(provider, at), Address: at, Protocol: protocol, Port: port}] = true
			}
		}
		if eventually(func() string { return n.answeredAll(t, s, asked) }) == "" {
			t.Errorf("port %d by %s, of providers %v: counted %v", port, kind, addressesOf(web1, web2), n.servedPackets(t, s))
		}
	}
	ask("udp", openflow.ProtoUDP, 54)
	ask("tcp", openflow.ProtoTCP, 81)
	ask("udp", openflow.ProtoUDP, 53)
	if got := c.pod(web2).node.servedPackets(t, s); len(got) != 2*len(s.Ports)*2 {
		t.Errorf("%d counters on the other node", len(got))
	}
	for what, packets := range c.pod(web2).node.servedPackets(t, s) {
		if packets > 0 {
			t.Errorf("the other node, which nobody has asked by, counts %d of %+v", packets, what)
		}
	}
}

// answeredAll returns "counted" if exactly the requests were counted, and answered; "" otherwise.
func (n *node) answeredAll(t *testing.T, s Service, asked map[Served]bool) string {
	t.Helper()
	packets := n.servedPackets(t, s)
	for what, count := range packets {
		answers := what
		if what.Answers = false; (count > 0) != asked[what] {
			return ""
		}
		if answers.Answers = true; what.Protocol == openflow.ProtoUDP && packets[answers] != packets[what] {
			return ""
		}
	}
	return "counted"
}

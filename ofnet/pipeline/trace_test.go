package pipeline

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"testing"
)

// packet is a packet for ofproto/trace.
type packet struct {
	inPort   uint32
	vni      uint32
	src, dst mac
	from, to netip.Addr
	kind     string     // protocol and TTL; empty: UDP
	node     netip.Addr // out of the tunnel: the sender's; zero: vtep2
}

func (p packet) String() string {
	kind, ip := cmp.Or(p.kind, "udp"), "nw"
	if p.from.Is6() {
		kind, ip = cmp.Or(p.kind, "udp6"), "ipv6"
	}
	if !strings.Contains(kind, "nw_ttl") {
		kind += ",nw_ttl=64" // the default is 0, and such a packet is not routed
	}
	text := fmt.Sprintf("%s,in_port=%d,dl_src=%s,dl_dst=%s,%s_src=%s,%s_dst=%s", kind,
		p.inPort, net.HardwareAddr(p.src[:]), net.HardwareAddr(p.dst[:]), ip, p.from, ip, p.to)
	if p.vni != 0 {
		sender := cmp.Or(p.node, vtep2)
		text += fmt.Sprintf(",tun_id=%d,tun_src=%s,tun_dst=%s", p.vni, sender, map[bool]netip.Addr{true: vtep2, false: vtep1}[sender == vtep1])
	}
	return text
}

// verdict returns what the datapath would do with a packet: "drop", or the actions.
func (n *node) verdict(t *testing.T, p packet) string {
	t.Helper()
	trace := n.Appctl("ofproto/trace", bridge, p.String())
	_, actions, found := strings.Cut(trace, "Datapath actions: ")
	if !found {
		t.Fatalf("no verdict in the trace:\n%s", trace)
	}
	return strings.TrimSpace(actions)
}

func TestWhatComesOutOfTheTunnelIsOnlyDelivered(t *testing.T) {
	c := startCluster(t, web1, red1)
	c.know(web2, db2, red2)
	n := c.pod(web1).node
	const tunnel, ping = exampleTunnelPort, "icmp,icmp_type=8,nw_ttl=64"

	blueArrival := packet{inPort: tunnel, vni: webBlue.VNI, src: web2.MAC, dst: web1.MAC, from: web2.IPv4, to: web1.IPv4}
	redArrival := packet{inPort: tunnel, vni: webRed.VNI, src: red2.MAC, dst: red1.MAC, from: red2.IPv4, to: red1.IPv4}
	blue, red := n.verdict(t, blueArrival), n.verdict(t, redArrival)
	if blue == "drop" || red == "drop" || blue == red {
		t.Fatalf("a packet of blue goes to %q, the same packet of red to %q", blue, red)
	}

	routedArrival := blueArrival
	routedArrival.src, routedArrival.from = AnycastMAC, db2.IPv4
	if got := n.verdict(t, routedArrival); got != blue {
		t.Errorf("what another node has routed: %s, want %s", got, blue)
	}
	for _, test := range []struct {
		name  string
		wrong packet
	}{
		{"an unknown VNI", packet{tunnel, 4711, web2.MAC, web1.MAC, web2.IPv4, web1.IPv4, "", vtep2}},
		{"the VNI of another network of the tenant", packet{tunnel, dbBlue.VNI, web2.MAC, web1.MAC, web2.IPv4, web1.IPv4, "", vtep2}},
		{"no VNI", packet{tunnel, 0, web2.MAC, web1.MAC, web2.IPv4, web1.IPv4, "", vtep2}},
		{"an endpoint behind the tunnel", packet{tunnel, webBlue.VNI, db2.MAC, web2.MAC, db2.IPv4, web2.IPv4, "", vtep2}},
		{"the gateway's MAC", packet{tunnel, webBlue.VNI, web2.MAC, AnycastMAC, web2.IPv4, web1.IPv4, "", vtep2}},
		{"a ping for the gateway", packet{tunnel, webBlue.VNI, web2.MAC, AnycastMAC, web2.IPv4, webBlue.Gateway, ping, vtep2}},
	} {
		t.Run(test.name+" leads nowhere", func(t *testing.T) {
			if got := n.verdict(t, test.wrong); got != "drop" {
				t.Errorf("%s: %s", test.wrong, got)
			}
		})
	}
}

func TestRulesKnowTheGroupOfARemoteSender(t *testing.T) {
	c := startCluster(t, web1)
	c.know(web2, db2)
	n := c.pod(web1).node
	fromFront := packet{inPort: exampleTunnelPort, vni: webBlue.VNI, src: web2.MAC, dst: web1.MAC, from: web2.IPv4, to: web1.IPv4}
	fromStore := packet{inPort: exampleTunnelPort, vni: webBlue.VNI, src: AnycastMAC, dst: web1.MAC, from: db2.IPv4, to: web1.IPv4}

	c.program(rule("no-store", 50, func(r *Rule) { r.SrcGroup = store }))
	if got := n.verdict(t, fromFront); got == "drop" {
		t.Errorf("front: %s", got)
	}
	if got := n.verdict(t, fromStore); got != "drop" {
		t.Errorf("store, routed by its own node: %s", got)
	}
}

// A client that entered by another node has no group, even if an endpoint there has its address: tenants'
// addresses are used outside, too.
func TestAClientByAnotherNodeIsNoEndpointOfIt(t *testing.T) {
	c := startCluster(t, web1, web2)
	n := c.pod(web1).node
	for _, kind := range []string{"udp", "udp,nw_frag=later", "tcp", "tcp,nw_frag=first", "sctp", "icmp,icmp_type=8"} {
		client := packet{inPort: exampleTunnelPort, vni: webBlue.VNI, src: entranceMAC, dst: web1.MAC, from: web2.IPv4, to: web1.IPv4, kind: kind}
		if got, _, _ := strings.Cut(n.verdict(t, client), "\n"); !strings.Contains(got, "ct(commit") {
			t.Errorf("%s: %s, with the group of an endpoint", client, got)
		}
	}
	c.program(rule("no-front", 50, func(r *Rule) { r.SrcGroup = front }))
	about := packet{inPort: exampleTunnelPort, vni: webBlue.VNI, src: entranceMAC, dst: web1.MAC, from: web2.IPv4, to: web1.IPv4, kind: "icmp,icmp_type=3"}
	if got := n.verdict(t, about); got == "drop" {
		t.Errorf("%s is judged as of an endpoint", about)
	}
}

// asksSwitchAlone matches the datapath's actions for a packet that the switch may answer, and that goes nowhere
// else.
var asksSwitchAlone = regexp.MustCompile(`^meter\(\d+\),meter\(\d+\),hash\(sym_l4\(0\)\),recirc\(0x[0-9a-f]+\)$`)

func TestAPacketAtTheEndOfItsLifeIsNotRouted(t *testing.T) {
	c := startCluster(t, web1, db1)
	p := packet{inPort: c.pod(web1).port, src: web1.MAC, dst: AnycastMAC, from: web1.IPv4, to: db1.IPv4, kind: "udp,nw_ttl=1"}
	n := c.pod(web1).node
	if got := n.verdict(t, p); !asksSwitchAlone.MatchString(got) {
		t.Errorf("TTL 1: %s", got)
	}
	p.kind = "udp,nw_ttl=2"
	if got := n.verdict(t, p); !strings.Contains(got, "ttl=1") {
		t.Errorf("TTL 2: %s", got)
	}
}

// The golden files must equal the output of ovs-ofctl. The switch is asked.
func TestTheSwitchPrintsTheFlowsAsTheGoldenFilesDo(t *testing.T) {
	n := startCluster(t, web1).nodes[0]
	wants := n.pipeline.Base()
	for _, o := range goldenObjects {
		wants.add(wantsOf(n.pipeline, o, portOf(o)))
	}
	unique := wants.Flows[:0]
	seen := map[string]bool{}
	for _, f := range wants.Flows {
		if !seen[f.MatchKey()] {
			seen[f.MatchKey()] = true
			unique = append(unique, f)
		}
	}
	wants.Flows = unique
	n.replace(t, wants)

	printed := map[string]bool{}
	for line := range strings.Lines(n.Ofctl("--no-stats", "--no-names", "dump-flows", bridge)) {
		printed[strings.TrimSpace(line)] = true
	}
	for _, f := range unique {
		if !printed[f.String()] {
			t.Errorf("the switch does not print %s", f)
		}
		delete(printed, f.String())
	}
	for line := range printed {
		t.Errorf("only the switch prints %s", line)
	}
}

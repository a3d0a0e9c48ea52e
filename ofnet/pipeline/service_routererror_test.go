package pipeline

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// discard is the port of udpFrame.
const discard = 9

// quotes returns source and destination of the IPv4 packet that an ICMP error quotes.
func quotes(frame []byte) (from, to netip.Addr) {
	const quoted = 14 + 20 + 8 // Ethernet, IPv4, ICMP
	if len(frame) < quoted+20 {
		return from, to
	}
	return netip.AddrFrom4([4]byte(frame[quoted+12:])), netip.AddrFrom4([4]byte(frame[quoted+16:]))
}

// answerTo returns an IPv4 UDP packet that answers another one.
func answerTo(packet []byte) []byte {
	answer := bytes.Clone(packet)
	copy(answer[12:], packet[16:20])
	copy(answer[16:], packet[12:16])
	copy(answer[20:], packet[22:24])
	copy(answer[22:], packet[20:22])
	return answer
}

// icmpError6 returns the ICMPv6 error packet too big, with a text after it.
func icmpError6(dst, src mac, to, from netip.Addr, about []byte, text string) []byte {
	icmp := append(append([]byte{2, 0, 0, 0, 0, 0, 5, 0}, about...), text...)
	if len(icmp)%2 == 1 {
		icmp = append(icmp, 0)
	}
	return ipv6Frame(dst, src, to, from, 58, 64, 2, icmp)
}

// quotes6 is quotes for IPv6.
func quotes6(frame []byte) (from, to netip.Addr) {
	const quoted = 14 + 40 + 8
	if len(frame) < quoted+40 {
		return from, to
	}
	return netip.AddrFrom16([16]byte(frame[quoted+8:])), netip.AddrFrom16([16]byte(frame[quoted+24:]))
}

// An error of a router on the path to a provider about a client's packet must have the service's address, the only
// one that the client knows. db2 acts as router.
func TestErrorsOfRoutersReachTheClientOfAService(t *testing.T) {
	c := startCluster(t, db1, db2, web2)
	s := Service{ID: "shop:blue", VRF: blueVRF, Tag: webBlue.Tag, Providers: addressesOf(web2)}
	for _, a := range []netip.Addr{vip, vip6} {
		s.Ports = append(s.Ports, ServicePort{Address: a, From: FromPods, Protocol: openflow.ProtoUDP, Port: discard, Target: discard})
	}
	c.program(s.Numbered(noneTaken))
	server, client, router := c.pod(web2).datagrams(discard), c.pod(db1).wire(), c.pod(db2).wire()
	for _, v := range []struct {
		vip, own, provider, router netip.Addr
		fails                      func(dst, src mac, to, from netip.Addr, about []byte, text string) []byte
		quotes                     func(frame []byte) (from, to netip.Addr)
	}{
		{vip, db1.IPv4, web2.IPv4, db2.IPv4, icmpError, quotes},
		{vip6, db1.IPv6, web2.IPv6, db2.IPv6, icmpError6, quotes6},
	} {
		client.send(udpFrame(AnycastMAC, db1.MAC, v.vip, v.own, "question"))
		if got := next(server, soon); string(got) != "question" {
			t.Fatalf("the provider gets %q", got)
		}
		seen := udpFrame(AnycastMAC, db1.MAC, v.provider, v.own, "question")[14:]
		router.send(v.fails(db1.MAC, db2.MAC, v.own, v.router, seen, "of a router"))
		if from, to := v.quotes(client.receive(soon, carrying("of a router"))); from != v.own || to != v.vip {
			t.Errorf("the client is told of a packet from %s to %s", from, to)
		}
		direct := udpFrame(AnycastMAC, db1.MAC, v.router, v.own, "question")[14:]
		router.send(v.fails(db1.MAC, db2.MAC, v.own, v.router, direct, "of nothing that was sent"))
		if from, to := v.quotes(client.receive(soon, carrying("of nothing that was sent"))); from != v.own || to != v.router {
			t.Errorf("an error about no connection is about a packet from %s to %s", from, to)
		}
	}
}

// An external router's error about an answer from a node port reaches the provider, on the node by which the
// client entered and on another one. An error about anything else is dropped, and does not go back to the host.
func TestErrorsOfRoutersReachTheProviderBehindANodePort(t *testing.T) {
	c := startCluster(t, web1, web2)
	node, router := NodePorts(wayOut.Prefix), addr("198.51.100.77")
	served := func(provider Endpoint) Service {
		return Service{ID: "shop:blue", VRF: blueVRF, Tag: webBlue.Tag, Providers: addressesOf(provider), Ports: []ServicePort{
			{Address: node, From: FromHost, Protocol: openflow.ProtoUDP, Port: discard, Target: discard, Shared: true},
		}}.Numbered(noneTaken)
	}
	way := wayOut
	way.Entered = blueVRF
	host := c.withOutside(web1, served(web1)).wireAt("contivh0")
	for client, provider := range map[netip.Addr]Endpoint{beyond[0]: web1, beyond[0].Next(): web2} {
		c.program(served(provider), way)
		server, at := c.pod(provider).datagrams(discard), c.pod(provider).wire()
		question := udpFrame(AnycastMAC, wayOut.MAC, node, client, "question")
		host.send(question)
		if got := next(server, soon); string(got) != "question" {
			t.Fatalf("%s gets %q", provider.ID, got)
		}
		host.send(icmpError(AnycastMAC, wayOut.MAC, node, router, answerTo(question[14:]), "of a router"))
		if from, to := quotes(at.receive(soon, carrying("of a router"))); from != provider.IPv4 || to != client {
			t.Errorf("%s is told of a packet from %s to %s", provider.ID, from, to)
		}
		never := udpFrame(AnycastMAC, wayOut.MAC, node, router, "question")
		host.send(icmpError(AnycastMAC, wayOut.MAC, node, router, answerTo(never[14:]), "of nothing"))
		host.send(echoFrame(AnycastMAC, wayOut.MAC, node, client)) // is answered
		got := host.receive(soon, func(f []byte) bool { return carrying("of nothing")(f) || len(f) > 34 && f[23] == 1 && f[34] == 0 })
		if carrying("of nothing")(got) || got == nil {
			t.Errorf("an error about no answer comes back to the host, or nothing does: %x", got)
		}
	}
}

// The connection tracker assigns neither a fragmented error nor one that quotes a fragment to a connection. Such
// an error is delivered untranslated, with the provider's address. To translate the fragmented one, all fragments
// of ICMP would have to be reassembled.
func TestErrorsInFragmentsAndAboutFragmentsNameTheProvider(t *testing.T) {
	c := startCluster(t, db1, db2, web2)
	c.program(Service{ID: "shop:blue", VRF: blueVRF, Tag: webBlue.Tag, Providers: addressesOf(web2), Ports: []ServicePort{
		{Address: vip, From: FromPods, Protocol: openflow.ProtoUDP, Port: discard, Target: discard},
	}}.Numbered(noneTaken))
	server, client, router := c.pod(web2).datagrams(discard), c.pod(db1).wire(), c.pod(db2).wire()
	client.send(udpFrame(AnycastMAC, db1.MAC, vip, db1.IPv4, "question"))
	if got := next(server, soon); string(got) != "question" {
		t.Fatalf("the provider gets %q", got)
	}
	seen := udpFrame(AnycastMAC, db1.MAC, web2.IPv4, db1.IPv4, "question")[14:]
	first := bytes.Clone(seen)
	first[6] |= 0x20 // more fragments follow
	said := func(about []byte, text string) []byte {
		return icmpError(db1.MAC, db2.MAC, db1.IPv4, db2.IPv4, about, text+strings.Repeat(".", 900))
	}
	for _, e := range []struct {
		text   string
		frames [][]byte
		named  netip.Addr
	}{
		{"whole", [][]byte{said(seen, "whole")}, vip},
		{"in fragments", fragments(said(seen, "in fragments"), 500), web2.IPv4},
		{"about a fragment", [][]byte{said(first, "about a fragment")}, web2.IPv4},
	} {
		for _, frame := range e.frames {
			router.send(frame)
		}
		if from, to := quotes(client.receive(soon, carrying(e.text))); from != db1.IPv4 || to != e.named {
			t.Errorf("%s: the client is told of a packet from %s to %s, want %s", e.text, from, to, e.named)
		}
	}
}

// If external routers balance an external address over several nodes, errors about an answer may enter by another
// node than the client, and only the client's node has the connection. Such an error is dropped, and does not go
// back to the host.
func TestErrorsThatComeByAnotherNodesHostGoNowhere(t *testing.T) {
	c := startCluster(t, web1, web2)
	s := Service{ID: "shop:blue", VRF: blueVRF, Tag: webBlue.Tag, Providers: addressesOf(web2), Ports: []ServicePort{
		{Address: external, From: FromPods | FromHost, Protocol: openflow.ProtoUDP, Port: discard, Target: discard},
	}}.Numbered(noneTaken)
	asked, other := c.withOutside(web1, s).wireAt("contivh0"), c.withOutside(web2, s).wireAt("contivh0")
	server, provider := c.pod(web2).datagrams(discard), c.pod(web2).wire()
	question := udpFrame(AnycastMAC, wayOut.MAC, external, beyond[0], "question")
	asked.send(question)
	if got := next(server, soon); string(got) != "question" {
		t.Fatalf("the provider gets %q", got)
	}
	router := addr("198.51.100.77")
	lost := c.pod(web2).node.dropped(t, reasonNoProvider)
	other.send(icmpError(AnycastMAC, wayOut.MAC, external, router, answerTo(question[14:]), "by another host"))
	if got := settled(lost+1, func() uint64 { return c.pod(web2).node.dropped(t, reasonNoProvider) }); got != lost+1 {
		t.Errorf("%d packets for nobody on the other node, want %d", got, lost+1)
	}
	asked.send(icmpError(AnycastMAC, wayOut.MAC, external, router, answerTo(question[14:]), "by the client's host"))
	got := provider.receive(soon, func(f []byte) bool { return carrying("by another host")(f) || carrying("by the client's host")(f) })
	if from, to := quotes(got); !carrying("by the client's host")(got) || from != web2.IPv4 || to != beyond[0] {
		t.Errorf("the provider is told %q of a packet from %s to %s", got, from, to)
	}
	other.send(echoFrame(AnycastMAC, wayOut.MAC, external, beyond[0])) // is answered
	back := other.receive(soon, func(f []byte) bool { return carrying("by another host")(f) || len(f) > 34 && f[23] == 1 && f[34] == 0 })
	if back == nil || carrying("by another host")(back) {
		t.Errorf("the error comes back to the host, or nothing does: %x", back)
	}
}

// When Open vSwitch (3.1) translates addresses in an ICMPv6 error, it updates the bytes at the offset of the
// connection's checksum: for UDP the MTU, for TCP the first bytes of the quoted source. If that is the client's
// address it must not change.
func TestErrorsOfRoutersOfIPv6ReachTheClientUnspoiled(t *testing.T) {
	c := startCluster(t, db1, db2, web2)
	s := serving(FromPods, addressesOf(web2), vip6)
	c.program(s)
	c.pod(web2).serveShop()
	client, router := c.pod(db1).wire(), c.pod(db2).wire()
	for _, protocol := range []uint8{openflow.ProtoTCP, openflow.ProtoUDP} {
		at := s.Ports[slices.IndexFunc(s.Ports, func(p ServicePort) bool { return p.Protocol == protocol })]
		question := func(to netip.Addr, port uint16) []byte {
			head := binary.BigEndian.AppendUint16([]byte{0x9c, 0x40}, port)
			if protocol == openflow.ProtoUDP {
				return ipv6Frame(AnycastMAC, db1.MAC, to, db1.IPv6, protocol, 64, 6, append(head, 0, 8, 0, 0))
			}
			return ipv6Frame(AnycastMAC, db1.MAC, to, db1.IPv6, protocol, 64, 16, append(head, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0x20, 0, 0, 0, 0, 0)) // SYN
		}
		client.send(question(vip6, at.Port))
		answered := func(f []byte) bool {
			return len(f) > 56 && f[20] == protocol && binary.BigEndian.Uint16(f[54:]) == at.Port
		}
		if client.receive(soon, answered) == nil {
			t.Fatalf("no answer to a question by protocol %d", protocol)
		}
		router.send(icmpError6(db1.MAC, db2.MAC, db1.IPv6, db2.IPv6, question(web2.IPv6, at.Target)[14:], "of a router"))
		got := client.receive(soon, carrying("of a router"))
		if got == nil {
			t.Fatalf("the client is told nothing of protocol %d", protocol)
		}
		if from, to := quotes6(got); from != db1.IPv6 || to != vip6 || binary.BigEndian.Uint16(got[14+40+8+40+2:]) != at.Port {
			t.Errorf("the client is told of a packet of protocol %d from %s to %s", protocol, from, to)
		}
		if mtu := binary.BigEndian.Uint32(got[14+40+4:]); mtu != 0x500 {
			t.Errorf("MTU %d of protocol %d, want %d", mtu, protocol, 0x500)
		}
		if sender := netip.AddrFrom16([16]byte(got[14+8:])); sender != vip6 {
			t.Errorf("protocol %d: the client is told by %s", protocol, sender)
		}
	}
}

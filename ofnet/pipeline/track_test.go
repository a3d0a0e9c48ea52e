package pipeline

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// A tracked connection counts as begun by the end that opened it, even if the server is the first to send after
// policies were added.
func TestConnectionsOlderThanPoliciesAreJudgedAsTheyBegan(t *testing.T) {
	c := startCluster(t, web1, db1, db2)
	c.judge(map[string]Tiers{web1.ID: Tracked, db1.ID: Tracked, db2.ID: Tracked})
	servers := []Endpoint{db1, db2}
	var allowed, forbidden []talkOver
	for _, to := range servers {
		allowed, forbidden = append(allowed, c.connect(web1, to, 7000)), append(forbidden, c.connect(to, web1, 7000+uint16(len(allowed))))
	}
	c.judge(map[string]Tiers{web1.ID: Tracked, db1.ID: isolated, db2.ID: isolated},
		allowing(false, classDB1, withPeers(classWeb1)), allowing(false, classDB2, withPeers(classWeb1)))
	for i, to := range servers {
		if !says('a', allowed[i].server, allowed[i].client, soon) {
			t.Errorf("what %s answers one who may come is lost", to.ID)
		}
	}
	for i, from := range servers {
		if says('b', forbidden[i].server, forbidden[i].client, never) {
			t.Errorf("the connection that %s has begun lives on", from.ID)
		}
	}
}

// Without an epoch every packet is evaluated.
func TestTiersWithoutAnEpochJudgeEveryPacket(t *testing.T) {
	c := startCluster(t, web1, db2)
	c.classify(map[string]Tiers{web1.ID: isolated, db2.ID: isolated})
	var rules []Object
	for i, r := range []TierRule{allowing(true, classWeb1, withPeers(classDB2)), allowing(false, classDB2, withPeers(classWeb1))} {
		r.Number, r.ID = uint32(i+1), string(rune('a'+i))
		rules = append(rules, r)
	}
	for _, n := range c.nodes {
		n.replace(t, c.wants(n, rules...).chosen())
	}
	talk := c.connect(web1, db2, 7000)
	if !says('a', talk.server, talk.client, soon) || !says('b', talk.client, talk.server, soon) {
		t.Error("what rules allow does not pass")
	}
	if c.pod(db2).ping(web1.IPv4) != 0 {
		t.Error("what no rule allows passes")
	}
}

// The tracker reassembles fragments, so that all of them have ports.
func TestTiersJudgeFragments(t *testing.T) {
	c := startCluster(t, web1, db1, db2)
	const open, closed = 7000, 7001
	ports := withPorts(PortRange{openflow.ProtoUDP, open, open})
	c.judge(map[string]Tiers{web1.ID: Tracked, db1.ID: isolated, db2.ID: isolated}, allowing(false, classDB1, ports), allowing(false, classDB2, ports))
	from := c.pod(web1).datagrams(0)
	for _, to := range []Endpoint{db1, db2} {
		received := map[uint16]*net.UDPConn{open: c.pod(to).datagrams(open), closed: c.pod(to).datagrams(closed)}
		for _, a := range []netip.Addr{to.IPv4, to.IPv6} {
			payload := bytes.Repeat([]byte{a.AsSlice()[0]}, 4000)
			for _, port := range []uint16{closed, open} {
				if _, err := from.WriteToUDPAddrPort(payload, netip.AddrPortFrom(a, port)); err != nil {
					t.Fatal(err)
				}
			}
			if got := next(received[open], soon); !bytes.Equal(got, payload) {
				t.Errorf("%s: %d bytes arrive at the open port", a, len(got))
			}
			if got := next(received[closed], never); got != nil {
				t.Errorf("%s: %d bytes arrive at the closed port", a, len(got))
			}
		}
	}
}

// A packet that resembles neighbour discovery, and is routed to another endpoint, is evaluated like any other.
func TestTiersJudgeWhatLooksLikeNeighbourDiscovery(t *testing.T) {
	c := startCluster(t, web1, db1, db2)
	servers := []Endpoint{db1, db2}
	send := func(kind, hops byte, to Endpoint, text string) {
		message := append([]byte{kind, 0, 0, 0, 0, 0, 0, 0}, text...)
		c.pod(web1).wire().send(ipv6Frame(AnycastMAC, web1.MAC, to.IPv6, web1.IPv6, openflow.ProtoICMPv6, hops, 2, message))
	}
	c.judge(map[string]Tiers{web1.ID: Tracked, db1.ID: isolated, db2.ID: isolated})
	for _, to := range servers {
		receiver := c.pod(to).wire()
		for _, kind := range ndTypes {
			for _, hops := range []byte{255, 64, 2} {
				send(kind, hops, to, "hidden")
			}
		}
		if receiver.receive(never, carrying("hidden")) != nil {
			t.Errorf("%s is isolated, and is reached", to.ID)
		}
	}
	c.judge(map[string]Tiers{})
	for _, to := range servers {
		receiver := c.pod(to).wire()
		if send(143, 64, to, "open"); receiver.receive(soon, carrying("open")) == nil {
			t.Errorf("%s is not reached though nobody judges", to.ID)
		}
	}
}

// An ICMP error has the verdict of the connection that it is about.
func TestErrorsAboutDeniedConnectionsAreNotAdmitted(t *testing.T) {
	c := startCluster(t, web1, db2)
	tiers := map[string]Tiers{web1.ID: isolated, db2.ID: Tracked}
	c.judge(tiers, allowing(true, classWeb1))
	from, client, server := c.pod(db2).datagrams(9), c.pod(web1).wire(), c.pod(db2).wire()
	sent := udpFrame(AnycastMAC, web1.MAC, db2.IPv4, web1.IPv4, "question")
	client.send(sent)
	if got := next(from, soon); string(got) != "question" {
		t.Fatalf("the server gets %q", got)
	}
	unreachable := func(text string) {
		server.send(icmpError(AnycastMAC, db2.MAC, web1.IPv4, db2.IPv4, sent[14:], text))
	}
	if unreachable("admitted"); client.receive(soon, carrying("admitted")) == nil {
		t.Error("an error about an admitted connection is lost")
	}
	c.judge(tiers)
	if unreachable("denied"); client.receive(never, carrying("denied")) != nil {
		t.Error("an error about a connection that is not allowed any more arrives")
	}
}

// icmpError returns the ICMP error port unreachable about a packet, with a text after it.
func icmpError(dst, src mac, to, from netip.Addr, about []byte, text string) []byte {
	icmp := append(append([]byte{3, 3, 0, 0, 0, 0, 0, 0}, about...), text...)
	if len(text)%2 == 1 {
		icmp = append(icmp, 0)
	}
	binary.BigEndian.PutUint16(icmp[2:], checksum(icmp))
	header := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 1, 0, 0}
	header = append(append(header, from.AsSlice()...), to.AsSlice()...)
	binary.BigEndian.PutUint16(header[2:], uint16(20+len(icmp)))
	binary.BigEndian.PutUint16(header[10:], checksum(header))
	return ethernet(dst, src, 0x0800, header, icmp)
}

package pipeline

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// discard is the port of udpFrame.
const discard = 9

// quotes is the sender and the receiver of the IPv4 packet that an ICMP error is about.
func quotes(frame []byte) (from, to netip.Addr) {
	const quoted = 14 + 20 + 8 // Ethernet, IPv4, ICMP
	if len(frame) < quoted+20 {
		return from, to
	}
	return netip.AddrFrom4([4]byte(frame[quoted+12:])), netip.AddrFrom4([4]byte(frame[quoted+16:]))
}

// answerTo is an IPv4 packet with UDP that answers another one.
func answerTo(packet []byte) []byte {
	answer := bytes.Clone(packet)
	copy(answer[12:], packet[16:20])
	copy(answer[16:], packet[12:16])
	copy(answer[20:], packet[22:24])
	copy(answer[22:], packet[20:22])
	return answer
}

// What a router on the way to a provider says of a client's packet names the service, which is all that the
// client knows. db2 stands for a router.
func TestErrorsOfRoutersReachTheClientOfAService(t *testing.T) {
	c := startCluster(t, db1, db2, web2)
	c.program(Service{ID: "shop:blue", VRF: blueVRF, Tag: webBlue.Tag, Providers: addressesOf(web2), Ports: []ServicePort{
		{Address: vip, From: FromPods, Protocol: openflow.ProtoUDP, Port: discard, Target: discard},
	}}.Numbered(noneTaken))
	server, client, router := c.pod(web2).datagrams(discard), c.pod(db1).wire(), c.pod(db2).wire()
	client.send(udpFrame(AnycastMAC, db1.MAC, vip, db1.IPv4, "question"))
	if got := next(server, soon); string(got) != "question" {
		t.Fatalf("the provider gets %q", got)
	}
	seen := udpFrame(AnycastMAC, db1.MAC, web2.IPv4, db1.IPv4, "question")
	router.send(icmpError(db1.MAC, db2.MAC, db1.IPv4, db2.IPv4, seen[14:], "of a router"))
	if from, to := quotes(client.receive(soon, carrying("of a router"))); from != db1.IPv4 || to != vip {
		t.Errorf("the client is told of a packet from %s to %s", from, to)
	}
	direct := answerTo(seen[14:])
	router.send(icmpError(db1.MAC, db2.MAC, db1.IPv4, db2.IPv4, direct, "of nothing that was sent"))
	if from, to := quotes(client.receive(soon, carrying("of nothing that was sent"))); from != web2.IPv4 || to != db1.IPv4 {
		t.Errorf("an error about no connection is about a packet from %s to %s", from, to)
	}
}

// What a router outside says of an answer from a node port reaches the provider, on the node by which the
// client came in and on another one.
func TestErrorsOfRoutersReachTheProviderBehindANodePort(t *testing.T) {
	c := startCluster(t, web1, web2)
	node, router := NodePorts(wayOut.Prefix), addr("198.51.100.77")
	served := func(provider Endpoint) Service {
		return Service{ID: "shop:blue", VRF: blueVRF, Tag: webBlue.Tag, Providers: addressesOf(provider), Ports: []ServicePort{
			{Address: node, From: FromHost, Protocol: openflow.ProtoUDP, Port: discard, Target: discard, Shared: true},
		}}.Numbered(noneTaken)
	}
	host := c.withOutside(web1, served(web1)).wireAt("contivh0")
	for client, provider := range map[netip.Addr]Endpoint{beyond[0]: web1, beyond[0].Next(): web2} {
		c.program(served(provider), wayOut)
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
	}
}

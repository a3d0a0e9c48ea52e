package pipeline

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

// forgery is a frame in a tunnel packet, and the node that the packet has as source.
type forgery struct {
	name  string
	from  netip.Addr
	vni   uint32
	frame []byte
	why   Reason
}

// Endpoints of a third node, which are known here.
var (
	farWeb = farAway(endpoint("far", webBlue, 8, front))
	farLan = farAway(endpoint("far", lanBlue, 8, front))
)

func farAway(e Endpoint) Endpoint {
	e.VTEP = vtep3
	return e
}

// forgeries returns what another node, or a host that is no node, sends in the name of others, with a text.
func forgeries(text string) []forgery {
	stranger := addr("192.168.2.99")
	as := func(e Endpoint, mac mac) []byte { return udpFrame(web1.MAC, mac, web1.IPv4, e.IPv4, text) }
	as6 := func(e Endpoint) []byte { return udpFrame(web1.MAC, AnycastMAC, web1.IPv6, e.IPv6, text) }
	toLan := func(e Endpoint) []byte { return udpFrame(lan1.MAC, e.MAC, lan1.IPv4, e.IPv4, text) }
	nobody := web2
	nobody.IPv4 = addr("10.1.1.77")
	return []forgery{
		{"a stranger as an endpoint", stranger, webBlue.VNI, as(web2, web2.MAC), reasonOtherNode},
		{"a stranger as an endpoint, IPv6", stranger, webBlue.VNI, as6(web2), reasonOtherNode},
		{"a stranger as a client that came in by a host", stranger, webBlue.VNI, as(nobody, entranceMAC), reasonOtherNode},
		{"a stranger as a member", stranger, lanBlue.VNI, toLan(lan2), reasonOtherNode},
		{"a node as an endpoint of a third one", vtep2, webBlue.VNI, as(farWeb, farWeb.MAC), reasonOtherNode},
		{"a node as an endpoint of a third one, routed", vtep2, webBlue.VNI, as(farWeb, AnycastMAC), reasonOtherNode},
		{"a node as an endpoint of a third one, IPv6", vtep2, webBlue.VNI, as6(farWeb), reasonOtherNode},
		{"a node as a member of a third one", vtep2, lanBlue.VNI, toLan(farLan), reasonOtherNode},
		{"a node as a member of a third one, to all", vtep2, lanBlue.VNI, ethernet(broadcast, farLan.MAC, 0x88b5, []byte(text)), reasonOtherNode},
		{"a node as an endpoint of this one", vtep2, webBlue.VNI, as(db1, AnycastMAC), reasonOtherNode},
		{"a node as nobody", vtep2, webBlue.VNI, as(nobody, web2.MAC), reasonOtherNode},
		{"a node as an endpoint of another tenant", vtep2, webRed.VNI, as(web2, web2.MAC), reasonOtherNode},
		{"a node asks for a neighbour", vtep2, webBlue.VNI, append(arpFrame(web2.MAC, web2.IPv4, web1.IPv4), text...), reasonOtherNode},
		{"a stranger asks whether packets pass", stranger, echoVNI, append(AskNode(stranger, 1).Data, text...), reasonOtherNode},
		{"a VNI that nobody has", vtep2, 4711, as(web2, web2.MAC), reasonNobody},
	}
}

// tunnelled returns a frame in a tunnel packet to a node.
func tunnelled(t *testing.T, to *node, f forgery) []byte {
	t.Helper()
	at, err := net.ParseMAC(to.mac)
	if err != nil {
		t.Fatal(err)
	}
	header := binary.BigEndian.AppendUint32([]byte{8, 0, 0, 0}, f.vni<<8)
	outer := udpFrame(mac(at), mac{2, 0, 0, 0, 0, 99}, to.vtep, f.from, string(append(header, f.frame...)))
	binary.BigEndian.PutUint16(outer[14+20+2:], 4789)
	return outer
}

// A host that reaches the tunnels of a node can send only as an endpoint of its own.
func TestANodeSpeaksForItsOwnEndpointsOnly(t *testing.T) { forged(t, 5) }

func TestLongThousandsOfForgedTunnelPacketsAreAllDroppedAndCounted(t *testing.T) {
	testkit.TakesLong(t)
	forged(t, 10_000/len(forgeries(""))+1)
}

func forged(t *testing.T, times int) {
	c := startCluster(t, web1, web2, db1, lan1, lan2)
	c.know(farWeb, farLan)
	n := c.pod(web1).node
	cable := c.pod(web2).node.underlay(t)
	receivers := []*wire{c.pod(web1).wire(), c.pod(lan1).wire()}
	before := map[Reason]uint64{reasonOtherNode: n.dropped(t, reasonOtherNode), reasonNobody: n.dropped(t, reasonNobody)}
	sent := map[Reason]uint64{}
	for i := range times {
		for _, f := range forgeries("forged") {
			cable.send(tunnelled(t, n, f))
			sent[f.why]++
		}
		if i%5 == 4 || i == times-1 { // the sockets on the path have room for these
			for why, want := range sent {
				if got := settled(want, func() uint64 { n.forget(); return n.dropped(t, why) - before[why] }); got < want {
					t.Fatalf("%d packets are dropped for reason %d, want %d", got, why, want)
				}
			}
		}
	}
	for i, from := range []Endpoint{web2, lan2} {
		w, fence := receivers[i], fmt.Sprint("fence ", i)
		to := w.pod.Endpoint
		proper := forgery{from: vtep2, vni: to.VNI, frame: udpFrame(to.MAC, from.MAC, to.IPv4, from.IPv4, fence)}
		cable.send(tunnelled(t, n, proper))
		if got := w.got(fence, "forged"); got != 0 {
			t.Errorf("%s gets %d forged packets", to.ID, got)
		}
	}
}

// An endpoint that moves keeps its record, which has one node. While another endpoint gets its address, there are
// two records of the address, with two nodes.
func TestAnEndpointIsBelievedFromTheNodesOfItsRecords(t *testing.T) {
	c := startCluster(t, web1)
	moved, another := web2, web2
	moved.VTEP = vtep3
	another.ID = web2.ID + "-another"
	arrival := packet{inPort: exampleTunnelPort, vni: webBlue.VNI, src: web2.MAC, dst: web1.MAC, from: web2.IPv4, to: web1.IPv4}
	for _, step := range []struct {
		known    Endpoint
		believed []netip.Addr
	}{
		{web2, []netip.Addr{vtep2}},
		{moved, []netip.Addr{vtep3}},
		{another, []netip.Addr{vtep2, vtep3}},
	} {
		c.know(step.known)
		for _, node := range []netip.Addr{vtep2, vtep3} {
			arrival.node = node
			if got := c.nodes[0].verdict(t, arrival); (got != "drop") != slices.Contains(step.believed, node) {
				t.Errorf("%s, known at %s: from %s %s", step.known.ID, step.known.VTEP, node, got)
			}
		}
	}
}

package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// bridging is what a bridged network has where a routed one is looked at by
// address: sender and receiver are found by network and MAC.
//
// The port is still held to its endpoint's MAC and addresses. On top of what
// the guard allows to all, a bridge carries
//
//	IPv6                 from the link-local address made of the MAC (guard.go)
//	DHCP                 a client's questions, from 0.0.0.0
//	what is not IP       with the endpoint's MAC
//
// but not what belongs to the cable itself, such as spanning tree: no bridge
// forwards that. ARP and solicitations which nobody has answered in NEIGHBOUR go
// to whom they are addressed, and no rule judges neighbour discovery, as none judges
// ARP: to deny packets is not to deny that somebody is there, a router for example.
//
// Nodes do not route here, but names and services have the MAC of gateways, which nobody has
// in such a network. What was sent to a service is for its provider by the address, and
// gets its MAC (service.go); there, too, nobody is outside of the network.
//
// The group of the sender, on another node, is found by network and MAC, and so
// is the receiver. Whoever is not found by MAC is everybody (flood.go).
type bridging struct{ others uint32 }

// reserved are the addresses by which switches speak with each other, as masks. An endpoint that sends such frames into a VLAN
// could become the root of its spanning tree, or have the switch outside close the port of the node.
var reserved = []struct{ address, mask [6]byte }{
	{[6]byte{0x01, 0x80, 0xc2, 0, 0, 0x00}, [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xf0}}, // IEEE 802.1Q: spanning tree, LLDP
	{[6]byte{0x01, 0x80, 0xc2, 0, 0, 0x20}, [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xe0}}, // MRP, connectivity faults; in between is IS-IS
	{[6]byte{0x01, 0x00, 0x0c}, [6]byte{0xff, 0xff, 0xff}},                               // Cisco: spanning tree for each VLAN, VTP, UDLD
	{[6]byte{0x01, 0x19, 0xa7}, [6]byte{0xff, 0xff, 0xff}},                               // ITU-T G.8032: rings
}

// Ports of DHCP, and of DHCP for IPv6.
const (
	dhcpClient  uint16 = 68
	dhcpServer  uint16 = 67
	dhcpClient6 uint16 = 546
	dhcpServer6 uint16 = 547
)

func (bridging) base(w *Wants) {
	for _, r := range reserved {
		w.flow(at(tableRouter, priorityExcept, openflow.EthDstMasked(r.address, r.mask)).drop(reasonMulticast))
	}
}

func (bridging) network(w *Wants, n Network) {
	if n.Mode.Bridged() {
		w.flow(
			at(tableNeighbour, priorityOther, regNetwork.is(uint32(n.Tag))).goTo(tableDest),
			at(tableDest, priorityOther, regNetwork.is(uint32(n.Tag)), regRouted.is(1)).drop(reasonNoRoute))
		for _, kind := range ndTypes {
			w.flow(at(tablePolicy, priorityLink, icmpv6(kind, regNetwork.is(uint32(n.Tag)), openflow.IPTTL(onLink(kind)))...).goTo(tableForward))
		}
	}
}

// onLink is the hop limit by which a message of neighbour discovery (RFC 4861, 7.1), or of listeners to multicast (RFC 3810, 5),
// shows that no router has passed it on, nor will.
func onLink(kind uint8) uint8 {
	if kind >= 133 && kind <= 137 {
		return 255
	}
	return 1
}

func (b bridging) endpoint(w *Wants, e placed) {
	if !e.Mode.Bridged() {
		return
	}
	inNetwork := regNetwork.is(uint32(e.Tag))
	w.flow(at(tableDest, priorityExact, inNetwork, openflow.EthDst(e.MAC)).
		do(toReceiver(e, b.others)...).goTo(tablePolicy))
	for _, a := range e.addresses() {
		f := familyOf(a)
		w.flow(at(tableDest, priorityExact, inNetwork, regRouted.is(1), f.is(), f.dst(inet.Host(a))).
			do(regRouted.set(0), set(openflow.EthDst(e.MAC))).do(toReceiver(e, b.others)...).goTo(tablePolicy))
	}
	if e.local() {
		b.mayAlsoSend(w, e)
	}
}

// mayAlsoSend widens the guard. What is IP or ARP, and has not passed it, must
// not pass as something that is neither.
func (bridging) mayAlsoSend(w *Wants, e placed) {
	if e.IPv4.IsValid() {
		w.flow(e.from(priorityExact, openflow.EthType(openflow.EthTypeIPv4), openflow.IPProto(openflow.ProtoUDP),
			openflow.IPv4Src(inet.Host(netip.IPv4Unspecified())),
			openflow.UDPSrc(dhcpClient), openflow.UDPDst(dhcpServer)).marked(e.Limits).goTo(tableRouter))
	}
	w.flow(e.from(priorityNotIP).goTo(tableRouter))
	for _, kind := range []uint16{openflow.EthTypeIPv4, openflow.EthTypeIPv6, openflow.EthTypeARP} {
		w.flow(at(tableGuard, priorityIP, openflow.InPort(e.port), openflow.EthType(kind)).drop(reasonForged))
	}
}

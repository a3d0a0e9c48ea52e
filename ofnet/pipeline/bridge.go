package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// bridging handles bridged networks, where sender and receiver are looked up by network and MAC instead of address.
//
// The port is still restricted to its endpoint's MAC and addresses. In addition to what the guard
// allows to all, a bridge carries
//
//	IPv6                 from the link-local address made of the MAC (guard.go)
//	DHCP                 a client's questions, from 0.0.0.0
//	what is not IP       with the endpoint's MAC
//
// but not what belongs to the link itself, such as spanning tree: no bridge forwards that. ARP and solicitations
// that have no answer in NEIGHBOUR go to their destination, and no rule applies to neighbour discovery, as none
// applies to ARP: denying packets does not mean hiding that a host exists, a router for example.
//
// Nodes do not route here, but name servers and services have the gateways' MAC, which no host has in such a
// network. A packet to a service is for its provider by the address, and gets the provider's MAC (service.go);
// there, too, no packet leaves the network.
//
// The group of the sender, on another node, is looked up by network and MAC, and so is the receiver. A packet
// without a receiver by MAC is flooded (flood.go). One with another address than the receiver's, as to a router, is FLOODED, too:
// what the connection tracker knows of its addresses is not about this receiver (track.go).
type bridging struct{ others uint32 }

// reserved are the addresses by which switches communicate with each other, as masks. An endpoint that sends such
// frames into a VLAN could become the root of its spanning tree, or make the external switch close the port of the
// node.
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

// onLink returns the hop limit by which a message of neighbour discovery (RFC 4861, 7.1), or of listeners to
// multicast (RFC 3810, 5), shows that no router has forwarded it, nor will.
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
	inNetwork, atMAC := regNetwork.is(uint32(e.Tag)), openflow.EthDst(e.MAC)
	w.flow(at(tableDest, priorityExact, inNetwork, atMAC).
		do(regFlooded.set(1)).do(toReceiver(e, b.others)...).goTo(tablePolicy))
	for _, a := range e.ownAddresses() {
		f := familyOf(a)
		w.flow(at(tableDest, priorityOwn, inNetwork, atMAC, f.is(), f.dst(inet.Host(a))).
			do(toReceiver(e, b.others)...).goTo(tablePolicy))
	}
	for _, a := range e.addresses() {
		f := familyOf(a)
		w.flow(at(tableDest, priorityExact, inNetwork, regRouted.is(1), f.is(), f.dst(inet.Host(a))).
			do(regRouted.set(0), set(openflow.EthDst(e.MAC))).do(toReceiver(e, b.others)...).goTo(tablePolicy))
	}
	if e.local() {
		b.mayAlsoSend(w, e)
	}
}

// mayAlsoSend widens the guard. IP or ARP that has not passed it must not pass as neither.
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

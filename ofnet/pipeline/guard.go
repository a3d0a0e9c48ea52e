package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// guard restricts a local port to the identity of its own endpoint: its MAC and one of its addresses. That is
// decided once, here, and all later tables rely on it: policies may match addresses because these are true.
//
//	IPv4, IPv6      own MAC, own address             -> ROUTER
//	ARP             own MAC, sender's MAC, own       -> NEIGHBOUR
//	                address or none (a probe)
//	neighbour       own MAC; own address, a          -> NEIGHBOUR,
//	solicitation    link-local one, or none (DAD)       metered (answer.go)
//	neighbour       own MAC, own address, and about  -> as other IPv6
//	advertisement   it
//	router's ICMPv6 advertisements, redirects        -> dropped
//	DHCP server's   from its ports, to clients'      -> dropped
//	a first fragment that is too short for ports,    -> dropped
//	                or for the type of ICMPv6
//	IPv6            headers that are not all there   -> dropped
//	all the rest    counted per endpoint             -> dropped
//
// Link-local addresses serve neighbour discovery and nothing else: they are not in the store, so their owner is
// unknown. bridge.go says what bridged networks carry beyond this.
//
// Solicitations for known addresses never reach another endpoint, so no neighbour table is changed by their
// option. An advertisement does, if it is unicast; one about an address that is not the sender's would make the
// receiver send its packets to the sender.
type guard struct{}

func (guard) base(w *Wants) {
	for _, kind := range []uint8{ndRouterAdvert, ndRedirect} {
		w.flow(at(tableGuard, priorityExcept, icmpv6(kind)...).drop(reasonServer))
	}
	for _, f := range []family{ipv4(), ipv6()} {
		for _, d := range f.dhcp() {
			w.flow(at(tableGuard, priorityGuard, f.is(), openflow.IPProto(openflow.ProtoUDP), d).drop(reasonServer))
		}
		for _, withoutPorts := range []openflow.Match{
			{openflow.IPProto(openflow.ProtoTCP), openflow.TCPSrc(0), openflow.TCPDst(0)},
			{openflow.IPProto(openflow.ProtoUDP), openflow.UDPSrc(0), openflow.UDPDst(0)},
			{openflow.IPProto(openflow.ProtoSCTP), openflow.SCTPSrc(0), openflow.SCTPDst(0)},
		} {
			first := openflow.Match{f.is(), openflow.IPFirstFragment()}
			w.flow(at(tableGuard, priorityGuard, append(first, withoutPorts...)...).drop(reasonTooShort))
		}
	}
	// Extension headers that continue in the next fragment hide the protocol, and the receiver would reassemble
	// them (RFC 7112). In the userspace datapath such a first fragment has protocol 0 and is no fragment, in
	// the kernel's it is a first fragment without a next header.
	w.flow(
		at(tableGuard, priorityGuard, ipv6().is(), openflow.IPProto(0)).drop(reasonTooShort),
		at(tableGuard, priorityGuard, ipv6().is(), openflow.IPFirstFragment(), openflow.IPProto(noNextHeader)).drop(reasonTooShort),
		at(tableGuard, priorityGuard, icmpv6(0, openflow.IPFirstFragment())...).drop(reasonTooShort)) // 0 is no type: it is not there
}

// noNextHeader is the protocol of an IPv6 packet that ends with its headers (RFC 8200, 4.7).
const noNextHeader = 59

// dhcp matches UDP datagrams that only servers and relays send: from the port of servers, or to that of
// clients, which do not check the source port.
func (f family) dhcp() [2]openflow.FieldMatch {
	if f.ethType == openflow.EthTypeIPv4 {
		return [2]openflow.FieldMatch{openflow.UDPSrc(dhcpServer), openflow.UDPDst(dhcpClient)}
	}
	return [2]openflow.FieldMatch{openflow.UDPSrc(dhcpServer6), openflow.UDPDst(dhcpClient6)}
}

func (guard) endpoint(w *Wants, e placed) {
	if !e.local() {
		return
	}
	w.flow(at(tableGuard, priorityOther, openflow.InPort(e.port)).drop(reasonForged))
	for _, a := range e.ownAddresses() {
		f := familyOf(a)
		w.flow(e.from(priorityExact, f.is(), f.src(inet.Host(a))).marked(e.Limits).goTo(tableRouter))
	}
	if e.IPv4.IsValid() {
		for _, sender := range []netip.Addr{e.IPv4, netip.IPv4Unspecified()} {
			w.flow(e.from(priorityExact, openflow.EthType(openflow.EthTypeARP),
				openflow.ARPSha(e.MAC), openflow.ARPSpa(inet.Host(sender))).goTo(tableNeighbour))
		}
	}
	asked, told := e.speaksND()
	if len(told) == 0 {
		return
	}
	for _, sender := range asked {
		w.flow(e.together(e.from(priorityAsking, icmpv6(openflow.NDSolicit, openflow.IPv6Src(sender))...).metered(e.port), groupAsked))
	}
	for _, own := range told {
		w.flow(e.from(priorityExcept, icmpv6(openflow.NDAdvert, openflow.IPv6Src(inet.Host(own)), openflow.NDTarget(own))...).marked(e.Limits).goTo(tableRouter))
	}
	w.flow(at(tableGuard, priorityRefuse, icmpv6(openflow.NDAdvert, openflow.InPort(e.port))...).drop(reasonForged))
}

// linkLocal is the prefix of the addresses that every IPv6 interface assigns itself.
var linkLocal = netip.MustParsePrefix("fe80::/64")

// ownAddresses returns the source addresses that packets of the endpoint may have. In a bridged network there is
// link-local traffic, from the one such address that is known to be the endpoint's: the one made of its MAC (RFC
// 4291, appendix A).
func (e placed) ownAddresses() []netip.Addr {
	own := e.addresses()
	if e.Mode.Bridged() {
		own = append(own, linkLocalOf(e.MAC))
	}
	return own
}

// linkLocalOf returns the address that a MAC's owner assigns itself.
func linkLocalOf(mac [6]byte) netip.Addr {
	a := linkLocal.Addr().As16()
	copy(a[8:], mac[:3])
	copy(a[13:], mac[3:])
	a[8] ^= 2 // universal or local
	a[11], a[12] = 0xff, 0xfe
	return netip.AddrFrom16(a)
}

// speaksND returns the sources of an endpoint's solicitations, and the addresses that it may advertise. None:
// it may not take part in neighbour discovery.
func (e placed) speaksND() (asked []netip.Prefix, told []netip.Addr) {
	for _, own := range e.ownAddresses() {
		if own.Is6() {
			told = append(told, own)
			asked = append(asked, inet.Host(own))
		}
	}
	if !e.Mode.Bridged() {
		asked = append(asked, linkLocal) // no other endpoint will receive the solicitation
	}
	return append(asked, inet.Host(netip.IPv6Unspecified())), told
}

// from matches what an endpoint sends from its port with its MAC.
func (e placed) from(priority uint16, match ...openflow.FieldMatch) flowBuilder {
	own := []openflow.FieldMatch{openflow.InPort(e.port), openflow.EthSrc(e.MAC)}
	return at(tableGuard, priority, append(own, match...)...)
}

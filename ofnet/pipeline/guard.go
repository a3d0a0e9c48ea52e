package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// guard lets a local port speak for its own endpoint only: with its MAC and
// one of its addresses. That is decided once, here, and everything behind
// relies on it: policy may judge by address because addresses are true.
//
//	IPv4, IPv6      own MAC, own address             -> on to the policy
//	ARP             own MAC, sender's MAC, own       -> NEIGHBOUR
//	                address or none (a probe)
//	neighbour       own MAC; own address, a          -> NEIGHBOUR
//	solicitation    link-local one, or none (DAD)
//	neighbour       own MAC, own address, and about  -> as other IPv6
//	advertisement   it
//	router's ICMPv6 advertisements, redirects        -> dropped
//	all the rest    counted per endpoint             -> dropped
//
// Link-local addresses serve neighbour discovery and nothing else: they are
// not in the store, so nobody could say whose they are.
//
// Solicitations never reach another endpoint, so nobody's neighbour table is
// changed by their option. An advertisement does, if it is unicast; one that
// speaks of an address that is not the sender's would make the receiver send
// its packets to the sender.
type guard struct{}

func (guard) base(w *Wants) {
	for _, kind := range []uint8{ndRouterAdvert, ndRedirect} {
		w.flow(at(tableGuard, priorityExcept, icmpv6(kind)...).drop(reasonForged))
	}
}

func (guard) endpoint(w *Wants, e placed) {
	if !e.local() {
		return
	}
	w.flow(at(tableGuard, priorityOther, openflow.InPort(e.port)).drop(reasonForged))
	for _, a := range e.addresses() {
		f := familyOf(a)
		w.flow(e.from(priorityExact, f.is(), f.src(openflow.Host(a))).marked(e.Limits).goTo(tableRouter))
	}
	if e.IPv4.IsValid() {
		for _, sender := range []netip.Addr{e.IPv4, netip.IPv4Unspecified()} {
			w.flow(e.from(priorityExact, openflow.EthType(openflow.EthTypeARP),
				openflow.ARPSha(e.MAC), openflow.ARPSpa(openflow.Host(sender))).goTo(tableNeighbour))
		}
	}
	if e.IPv6.IsValid() {
		own := openflow.Host(e.IPv6)
		for _, sender := range []netip.Prefix{own, linkLocal, openflow.Host(netip.IPv6Unspecified())} {
			w.flow(e.from(priorityExcept, icmpv6(openflow.NDSolicit, openflow.IPv6Src(sender))...).goTo(tableNeighbour))
		}
		w.flow(
			e.from(priorityExcept, icmpv6(openflow.NDAdvert, openflow.IPv6Src(own), openflow.NDTarget(e.IPv6))...).marked(e.Limits).goTo(tableRouter),
			at(tableGuard, priorityRefuse, icmpv6(openflow.NDAdvert, openflow.InPort(e.port))...).drop(reasonForged),
		)
	}
}

// linkLocal are the addresses every IPv6 interface makes for itself.
var linkLocal = netip.MustParsePrefix("fe80::/64")

// from matches what an endpoint sends from its port with its MAC.
func (e placed) from(priority uint16, match ...openflow.FieldMatch) flowBuilder {
	own := []openflow.FieldMatch{openflow.InPort(e.port), openflow.EthSrc(e.MAC)}
	return at(tableGuard, priority, append(own, match...)...)
}

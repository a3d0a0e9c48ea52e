package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// announced are services of routed VLANs for clients behind the external routers. Nodes with providers announce
// the address to the routers (package netplugin/border).
//
// Ports for such clients are served FromOutside, by the providers of this node alone: packets from the uplink
// do not leave by it again. Routers that have routes to several such nodes balance the connections over them.
// The node that gets a connection translates it:
//
//	SOURCE   from the uplink, for a port of the service: what was this connection translated to?
//	           A new one finds its provider in DEST, as any does
//	           Other packets for the address go to ANSWER: pings, and refused ones
//	FORWARD  from a provider's port, for no endpoint here, before any route: if it is an
//	           answer, its source is the service again; then it is routed
//
// The client keeps its address, which the provider and the rules see.
type announced struct{}

// priorityAnnounced is above all routes, and above the flows for packets that must not be routed: a packet
// reaches those after it has been looked up.
const priorityAnnounced = priorityNoRoute + 100

func (s announced) service(w *Wants, o Service) {
	if o.Encap != VLAN || o.Mode.Bridged() {
		return
	}
	look := []openflow.Action{regOuter.set(1), o.translate(tableSource)}
	for _, a := range o.addresses(FromOutside) {
		w.flow(s.arrival(o, a, priorityRefuse).goTo(tableAnswer))
		for _, m := range withoutPorts(a) {
			w.flow(s.arrival(o, a, priorityExcept, m...).do(look...).end())
		}
	}
	for _, p := range o.Ports {
		if p.From&FromOutside != 0 {
			w.flow(s.arrival(o, p.Address, priorityExcept, p.matches(openflow.TCPDst, openflow.UDPDst, p.Port)...).do(look...).end())
		}
	}
	hosts := map[netip.Addr]bool{}
	for _, b := range o.backends(FromOutside) {
		a := b.at.Addr()
		w.flow(s.departure(o, a, b.matches(openflow.TCPSrc, openflow.UDPSrc)))
		if hosts[a] {
			continue
		}
		hosts[a] = true
		for _, m := range ofAnyPort(a) {
			w.flow(s.departure(o, a, m))
		}
	}
}

// arrival matches packets from the uplink for an address of the service that have not been looked up.
func (announced) arrival(o Service, to netip.Addr, priority uint16, more ...openflow.FieldMatch) flowBuilder {
	f := familyOf(to)
	m := o.match(f.is(), f.dst(inet.Host(to)), regOrigin.is(originTunnel), regRouted.is(1), openflow.CTState(0, openflow.CTTrk))
	return at(tableSource, priority, append(m, more...)...)
}

// departure looks up what a provider sends to a receiver that is no endpoint here.
func (announced) departure(o Service, from netip.Addr, m openflow.Match) openflow.Flow {
	f := familyOf(from)
	match := append(o.match(f.is(), f.src(inet.Host(from)), sentToRouter(), regOut.is(0), openflow.CTState(0, openflow.CTTrk)), m...)
	return at(tableForward, priorityAnnounced, match...).do(o.lookUpAnswer(from)...).end()
}

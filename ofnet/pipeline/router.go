package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// router connects routed networks of encapsulation vlan to the external routers. The node is a router among
// them: it has an address on the uplink's link, untagged, and a port to the host, which speaks BGP with the
// routers and answers for that address.
//
//	CLASSIFY   from the uplink: ARP, neighbour discovery and what is for the node's
//	           own addresses goes to the host's port, unseen by anything else;
//	           other IP for the node's MAC is to be routed to an endpoint here
//	           from the host's port: out by the uplink
//	FORWARD    to be routed, from a local port, for no endpoint here: the longest
//	           prefix of a route gives the next hop; of several equal ones a group
//	           chooses, by a hash of the addresses and, of TCP and SCTP, the ports
//	OUTPUT     the next hop gives the MACs
//	           what the switch answers itself goes back to the router that sent it
//
// All tenants share one VRF, as the external routers know addresses only. Endpoints on other nodes are reached
// by routes like everything else; their flows set their groups for the policy. Packets from outside never go
// out again: the node is no transit.
//
// Routes, the MACs of next hops and groups of equal cost are objects of their own, so that replacing a router
// changes one flow, and removing one changes one group, however many routes use it.
type router struct {
	uplink uint32
	size   tooBig
	hops   expired
}

// priorityRoute plus the length of its prefix is the priority of a route; packets that must not be routed have a
// higher one.
const (
	priorityRoute   uint16 = 1000
	priorityNoRoute uint16 = priorityRoute + 200
)

// SharedVRF is the VRF of all routed networks of encapsulation vlan. No tenant has it.
const SharedVRF uint16 = 65535

// Groups of routes with several next hops have these numbers.
const (
	FirstRouteGroup uint32 = 1 << 30
	LastRouteGroup  uint32 = groupServices - 1
)

func (r router) router(w *Wants, o Router, port uint32) {
	fromUplink := openflow.InPort(r.uplink)
	toHost := func(priority uint16, match ...openflow.FieldMatch) {
		w.flow(at(tableClassify, priority, append([]openflow.FieldMatch{fromUplink}, match...)...).do(regOut.set(port)).goTo(tableOutput))
	}
	toHost(priorityExact, isARP())
	for _, kind := range []uint8{openflow.NDSolicit, openflow.NDAdvert} {
		toHost(priorityExcept, icmpv6(kind)...)
	}
	for _, a := range o.addresses() {
		f := familyOf(a)
		toHost(priorityExcept, openflow.EthDst(o.MAC), f.is(), f.dst(inet.Host(a)))
	}
	questions(w, r.uplink)
	w.flow(
		at(tableOutput, priorityExcept, fromUplink, regOut.is(outBack)).do(set(openflow.EthSrc(o.MAC)), openflow.Output{Port: openflow.PortInPort}).end(),
		at(tableClassify, priorityExact, openflow.InPort(port)).do(regOrigin.set(originHost), regOut.set(r.uplink)).goTo(tableOutput),
		at(tableOutput, priorityExact, regOut.is(port)).do(openflow.Output{Port: port}).end(),
		at(tableOutput, priorityGuard, regOrigin.is(originHost), regOut.is(r.uplink)).do(openflow.Output{Port: r.uplink}).end(),
		at(tableOutput, priorityOther, regOut.is(r.uplink)).drop(reasonNoNextHop))
	for _, f := range []family{ipv4(), ipv6()} {
		w.flow(at(tableClassify, priorityExact, fromUplink, openflow.EthDst(o.MAC), f.is()).
			do(arrived(originTunnel)...).do(regVRF.set(uint32(SharedVRF)), regRouted.set(1)).goTo(tableSource))
		w.flow(unreceived(priorityNoRoute, f.is(), f.dst(f.toMany)).drop(reasonMulticast))
		w.flow(unreceived(priorityNoRoute, f.is(), f.dst(f.onLink)).drop(reasonNoRoute))
		for ttl := range uint8(2) {
			w.flow(r.hops.ends(unreceived(priorityNoRoute, f.is(), openflow.IPTTL(ttl))))
		}
	}
}

// route's flow decrements the hop limit, like all of forward.go. MACs are set later.
func (r router) route(w *Wants, o Route) {
	f := familyOf(o.Prefix.Addr())
	routed := at(tableForward, priorityRoute+uint16(o.Prefix.Bits()), sentToRouter(), regOut.is(0), f.is(), f.dst(o.Prefix)).
		do(r.size.check()...).do(openflow.DecTTL{}, regOut.set(r.uplink))
	if o.Group == 0 {
		w.flow(routed.do(keepNextHop(o.NextHop)...).goTo(tableOutput))
		return
	}
	w.flow(routed.do(openflow.OutputGroup{ID: o.Group}).end())
}

func (router) hopGroup(w *Wants, o HopGroup) {
	var choices [][]openflow.Action
	for _, next := range o.NextHops {
		choices = append(choices, append(keepNextHop(next), openflow.Resubmit{Table: tableOutput}))
	}
	w.Groups = append(w.Groups, openflow.Group{ID: o.Number, Type: openflow.GroupSelect, Buckets: evenly(choices)})
}

func (r router) nextHop(w *Wants, o NextHop) {
	w.flow(at(tableOutput, priorityExact, append(regNextHop.words(o.Address), regOut.is(r.uplink))...).
		do(set(openflow.EthSrc(o.From)), set(openflow.EthDst(o.MAC)), openflow.Output{Port: r.uplink}).end())
}

// sentToRouter matches packets from a local port that are to be routed.
func sentToRouter() openflow.FieldMatch { return both(regOrigin.is(originLocal), regRouted.is(1)) }

// LinkLocal returns the IPv6 address that the host assigns itself on that link.
func (o Router) LinkLocal() netip.Addr { return linkLocalOf(o.MAC) }

// addresses returns those that the host answers for.
func (o Router) addresses() []netip.Addr {
	return addresses(o.IPv4, o.IPv6, o.LinkLocal())
}

// keepNextHop writes an address to NEXT_HOP.
func keepNextHop(a netip.Addr) []openflow.Action {
	words := regNextHop.words(a)
	if a.Is4() {
		return []openflow.Action{set(words[3])}
	}
	return []openflow.Action{set(words[0]), set(words[1]), set(words[2]), set(words[3])}
}

func checkRouter(o Router) error {
	if o.MAC == ([6]byte{}) || o.MAC[0]&1 != 0 {
		return fault.New(fault.Invalid, "router %s: MAC %x is not that of one host", o.ID, o.MAC)
	}
	return checkAddresses("router", o.ID, o.IPv4, o.IPv6)
}

func checkRoute(o Route) error {
	switch {
	case !o.Prefix.IsValid() || o.Prefix != o.Prefix.Masked():
		return fault.New(fault.Invalid, "route %s: not a prefix", o.Prefix)
	case o.Group != 0:
		return checkRouteGroup("route "+o.Prefix.String(), o.Group)
	case !o.NextHop.IsValid():
		return fault.New(fault.Invalid, "route %s: no next hop", o.Prefix)
	}
	return nil
}

func checkHopGroup(o HopGroup) error {
	if len(o.NextHops) == 0 {
		return fault.New(fault.Invalid, "group %d: no next hop", o.Number)
	}
	return checkRouteGroup("next hops", o.Number)
}

func checkRouteGroup(of string, number uint32) error {
	if number < FirstRouteGroup || number > LastRouteGroup {
		return fault.New(fault.Invalid, "%s: group %d is not one of routes", of, number)
	}
	return nil
}

func checkNextHop(o NextHop) error {
	for _, mac := range [][6]byte{o.MAC, o.From} {
		if mac == ([6]byte{}) || mac[0]&1 != 0 {
			return fault.New(fault.Invalid, "next hop %s: MAC %x is not that of one host", o.Address, mac)
		}
	}
	return nil
}

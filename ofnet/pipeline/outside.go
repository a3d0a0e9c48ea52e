package pipeline

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// outside is the way out of a tenant's networks, and back: through the host, which routes and translates
// addresses as for all its other traffic.
//
// Endpoints of different tenants may have the same address, so on the host every endpoint of its node has another
// one, made of a private prefix and the number of the endpoint's port. The switch translates without connection
// state:
//
//	endpoint                                host's port
//	own address -> outside         ==>      OutsideAddress(port) -> outside
//	outside -> own address         <==      outside -> OutsideAddress(port)
//
// A packet goes out if it is to be routed, has passed the rules, and has no receiver in the tenant's networks: an
// unassigned address in one of them stays unknown, instead of being looked up outside. Packets from outside are
// subject to the rules like all that an endpoint receives; the sender has no group, and its address outside.
//
// IPv4 fragments are translated by the connection tracker, which reassembles them for that. Open vSwitch's
// userspace datapath (3.1) treats bytes of later fragments as a transport checksum, and changes them when an
// address is written; not for IPv6. The addresses are the same, so a connection may have both kinds of packets.
//
//	FORWARD  from an endpoint   ct(commit,nat(src=OutsideAddress(port))), and again
//	         translated         to the host
//	SOURCE   from the host      ct(commit,nat(dst=own address)), to DEST
//
// Only what the host sends to a private address comes in. The host's own rules, not the pipeline, decide which
// packets of others it forwards there.
type outside struct {
	gateway [6]byte
	size    tooBig
}

// OutsideHost replaces the port's number in the host's own address, in both IP families. No port has this number.
const OutsideHost = 0xfffe

// outsidePods replaces the port's number in the address of PodsAsHost. No port has this number.
const outsidePods = 0xfffb

// PodsAsHost returns the source that endpoints see if another endpoint of their node reaches them by a port of
// the host: a sender other than the host, so rules apply to it. The host translates the answers.
func PodsAsHost(private netip.Prefix) netip.Addr { return OutsideAddress(private, outsidePods) }

// OutsideAddress returns the address on the host of the endpoint at a port.
func OutsideAddress(p netip.Prefix, port uint32) netip.Addr { return privateAddress(p, port) }

// Prefixes returns those of the private addresses, at most one of each IP family.
func (o Outside) Prefixes() (all []netip.Prefix) {
	for _, p := range []netip.Prefix{o.Prefix, o.Prefix6} {
		if p.IsValid() {
			all = append(all, p)
		}
	}
	return all
}

// unreceived matches packets to be routed that are for no endpoint.
func unreceived(priority uint16, more ...openflow.FieldMatch) flowBuilder {
	return at(tableForward, priority, append([]openflow.FieldMatch{regRouted.is(1), regOut.is(0)}, more...)...)
}

// unreceivedFrom matches those of them that have a certain origin.
func unreceivedFrom(origin uint32, priority uint16, more ...openflow.FieldMatch) flowBuilder {
	return at(tableForward, priority, append([]openflow.FieldMatch{regRouted.is(1), regOrigin.is(origin), regOut.is(0)}, more...)...)
}

func (outside) base(w *Wants) {
	w.flow(at(tableSource, priorityOther, regOrigin.is(originHost)).drop(reasonUnknown))
}

func (x outside) outside(w *Wants, o Outside, port uint32) {
	w.flow(
		at(tableClassify, priorityOther, openflow.InPort(port)).drop(reasonUnknown),
		at(tableOutput, priorityExact, regOut.is(port)).do(openflow.Output{Port: port}).end())
	for _, p := range o.Prefixes() {
		f, host := familyOf(p.Addr()), inet.Host(OutsideAddress(p, OutsideHost))
		toHost := []openflow.Action{openflow.DecTTL{}, set(openflow.EthSrc(x.gateway)), set(openflow.EthDst(o.MAC)), regOut.set(port)}
		known := append(x.size.check(), set(f.src(inet.Host(p.Addr()))), openflow.Move{Src: openflow.FieldInPort16, Dst: f.srcField, Bits: 16})
		w.flow(
			at(tableClassify, priorityExact, openflow.InPort(port), f.is(), f.dst(p)).do(arrived(originHost)...).goTo(tableSource),
			unreceived(priorityHost, f.whole(f.dst(host))...).do(known...).do(toHost...).goTo(tableOutput),
			unreceived(priorityHost, f.whole(f.dst(inet.Host(PodsAsHost(p))))...).do(known...).do(toHost...).goTo(tableOutput),
			unreceived(priorityInside, f.is(), f.dst(f.loopback)).drop(reasonNoRoute),
			unreceived(priorityInside, f.is(), f.dst(f.toMany)).drop(reasonMulticast),
			unreceived(priorityInside, f.is(), f.dst(p)).drop(reasonNoRoute),
			unreceivedFrom(originLocal, priorityOutside, f.whole()...).do(known...).do(toHost...).goTo(tableOutput))
		if p.Addr().Is4() {
			w.flow(unreceived(priorityHairpin, f.is(), openflow.IPFragment(), f.src(p), openflow.CTState(openflow.CTTrk, openflow.CTTrk)).
				do(toHost...).goTo(tableOutput))
		}
	}
}

// whole matches packets into which an address can be written.
func (f family) whole(more ...openflow.FieldMatch) openflow.Match {
	if f.ethType == openflow.EthTypeIPv4 {
		more = append(more, openflow.IPWhole())
	}
	return append(openflow.Match{f.is()}, more...)
}

// network's flow keeps packets for an address of the network inside.
func (outside) network(w *Wants, n Network) {
	if n.Mode.Bridged() {
		return
	}
	for _, subnet := range []netip.Prefix{n.Subnet, n.Subnet6} {
		if f := familyOf(subnet.Addr()); subnet.IsValid() {
			w.flow(unreceived(priorityInside, regVRF.is(uint32(n.VRF)), f.is(), f.dst(subnet)).drop(reasonNoRoute))
		}
	}
}

// endpoint's flows find the endpoint of a private address; CLASSIFY has matched the prefix.
func (x outside) endpoint(w *Wants, e placed) {
	if !e.local() || e.Mode.Bridged() {
		return
	}
	for _, a := range e.addresses() {
		f := familyOf(a)
		found := at(tableSource, priorityExact, regOrigin.is(originHost), f.is(),
			openflow.Masked(f.dstField, openflow.Value{Lo: uint64(e.port)}, openflow.Value{Lo: 0xffff})).
			do(regVRF.set(uint32(e.VRF)), regNetwork.set(uint32(e.Tag)), set(openflow.EthSrc(x.gateway)), set(openflow.EthDst(e.MAC)))
		w.flow(found.do(set(f.dst(inet.Host(a)))).goTo(tableDest))
		if a.Is4() && e.Private.IsValid() {
			x.fragments(w, e, found)
		}
	}
}

// fragments translates fragments: outgoing ones return to FORWARD with the private address, incoming
// ones continue with the endpoint's.
func (outside) fragments(w *Wants, e placed, found flowBuilder) {
	translate := func(table uint8, kind openflow.NATKind, to netip.Addr) openflow.Action {
		return openflow.CT{
			Commit: true, Zone: e.VRF, Recirculate: true, Table: table,
			Actions: []openflow.Action{openflow.NAT{Kind: kind, MinIP: to}},
		}
	}
	found.Priority, found.Match = priorityExcept, append(slices.Clone(found.Match), openflow.IPFragment())
	out := translate(tableForward, openflow.NATSource, OutsideAddress(e.Private, e.port))
	own := openflow.Match{openflow.InPort(e.port), ipv4().is(), openflow.IPFragment(), openflow.CTState(0, openflow.CTTrk)}
	w.flow(
		found.do(translate(tableDest, openflow.NATDestination, e.IPv4)).end(),
		unreceived(priorityOutside, own...).do(out).end(),
		unreceived(priorityHost, append(slices.Clone(own), openflow.IPv4Dst(inet.Host(OutsideAddress(e.Private, OutsideHost))))...).do(out).end(),
		unreceived(priorityHost, append(slices.Clone(own), openflow.IPv4Dst(inet.Host(PodsAsHost(e.Private))))...).do(out).end())
}

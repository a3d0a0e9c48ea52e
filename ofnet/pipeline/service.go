package pipeline

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// services are virtual addresses, each with providers behind it.
//
// A packet for a service is routed: the address is answered for with the
// gateway's MAC. The connection tracker translates it on the client's node, with
// one zone for each VRF:
//
//	ROUTER   for a port of the service: what was this connection translated to?
//	DEST     a new one: the group of the port chooses a provider by a hash
//	           ct(commit,nat(dst=provider:port)), and begins again at DEST
//	         otherwise it is for the provider now, as any packet
//	OUTPUT   from a provider's port to a local endpoint: if it is an answer of
//	           a translated connection, it comes from the service again
//
// Whatever is neither sent to a service nor comes from the port of a provider
// never sees the connection tracker. Between ROUTER and OUTPUT a packet has the
// address of the provider. The policy knows nothing of services: it is judged
// between the client and the provider, in both directions and on both nodes.
//
// Which provider a connection has is known to the connection tracker only.
// Another provider changes nothing about it; one that goes takes its own
// connections along (Ended).
//
// A provider that calls its own service may be given itself. It would not accept
// a packet from its own address, so it gets it from hairpinAddress, and
// what it answers there comes back to it:
//
//	OUTPUT   provider -> provider       from hairpinAddress, back to the port
//	ROUTER   provider -> hairpinAddress to the provider itself
//	OUTPUT   provider -> provider       translated as any answer, back to the port
type services struct{ gateway [6]byte }

// hairpinAddress is link-local, so no network has it; hosts send what they
// have for it to their gateway.
var hairpinAddress = netip.AddrFrom4([4]byte{169, 254, 0, 253})

// icmpUnreachable is the ICMP error that hosts send about a connection.
const icmpUnreachable = 3

func (s services) base(w *Wants) {
	v4 := ipv4()
	w.flow(at(tableRouter, priorityExcept, openflow.EthDst(s.gateway), v4.is(), v4.dst(openflow.Host(hairpinAddress))).
		do(openflow.MoveAll(v4.srcField, v4.dstField), regRouted.set(1)).goTo(tableDest))
}

func (s services) service(w *Wants, o Service) {
	v4 := ipv4()
	w.flow(
		answerARP(o.Tag, o.VIP, s.gateway),
		at(tableDest, priorityExcept, o.match(regRouted.is(1), v4.isICMP(), v4.echo, v4.dst(openflow.Host(o.VIP)))...).goTo(tableAnswer),
		// About an answer that the client did not want.
		s.arrival(o, v4.isICMP(), openflow.ICMPType(icmpUnreachable)).
			do(regRouted.set(1), o.translate(tableDest)).end())
	for _, p := range o.Ports {
		s.port(w, o, p)
	}
	if len(o.Ports) == 0 {
		return
	}
	for _, a := range o.Providers {
		from := v4.src(openflow.Host(a))
		w.flow(
			// Only the first fragment has ports; the connection tracker puts them together.
			o.departure(priorityService, from, openflow.IPFragment()).do(o.translate(tableOutput)).end(),
			o.departure(priorityService, from, v4.isICMP(), openflow.ICMPType(icmpUnreachable)).do(o.translate(tableOutput)).end())
	}
}

// port balances what is for one port.
func (s services) port(w *Wants, o Service, p ServicePort) {
	arrival := s.arrival(o, p.matches(openflow.TCPDst, openflow.UDPDst, p.Port)...)
	if len(o.Providers) == 0 {
		w.flow(arrival.drop(reasonNoProvider))
		return
	}
	group := openflow.Group{ID: o.group(p), Type: openflow.GroupSelect}
	fresh := append(p.matches(openflow.TCPDst, openflow.UDPDst, p.Port), ipv4().dst(openflow.Host(o.VIP)),
		openflow.CTState(openflow.CTNew|openflow.CTTrk, openflow.CTNew|openflow.CTTrk))
	w.flow(
		arrival.do(regRouted.set(1), o.translate(tableDest)).end(),
		at(tableDest, priorityExcept, o.match(fresh...)...).do(openflow.OutputGroup{ID: group.ID}).end())
	for _, a := range o.Providers {
		group.Buckets = append(group.Buckets, openflow.Bucket{Weight: 1, Actions: []openflow.Action{o.commit(a, p.Target)}})
		s.answers(w, o, p, a)
	}
	w.Groups = append(w.Groups, group)
}

// answers restores the service as the sender of what a provider answers.
func (s services) answers(w *Wants, o Service, p ServicePort, provider netip.Addr) {
	from, to := ipv4().src(openflow.Host(provider)), ipv4().dst(openflow.Host(provider))
	answer := append(p.matches(openflow.TCPSrc, openflow.UDPSrc, p.Target), from)
	request := append(p.matches(openflow.TCPDst, openflow.UDPDst, p.Target), from, to,
		openflow.CTState(openflow.CTTrk, openflow.CTTrk))
	w.flow(
		o.departure(priorityExcept, answer...).do(o.translate(tableOutput)).end(),
		o.departure(priorityHairpin, append(answer, to)...).do(regOut.set(outBack), o.translate(tableOutput)).end(),
		at(tableOutput, priorityHairpin, o.match(request...)...).
			do(set(ipv4().src(openflow.Host(hairpinAddress))), openflow.Output{Port: openflow.PortInPort}).end())
}

// match adds the VRF and the version of IP of a service.
func (o Service) match(more ...openflow.FieldMatch) openflow.Match {
	return append(openflow.Match{regVRF.is(uint32(o.VRF)), ipv4().is()}, more...)
}

// arrival matches what a local endpoint sends to a service.
func (s services) arrival(o Service, more ...openflow.FieldMatch) flowBuilder {
	return at(tableRouter, priorityExcept, append(o.match(more...), openflow.EthDst(s.gateway), ipv4().dst(openflow.Host(o.VIP)))...)
}

// departure matches what is about to be delivered and has not been looked up.
func (o Service) departure(priority uint16, more ...openflow.FieldMatch) flowBuilder {
	return at(tableOutput, priority, append(o.match(more...), openflow.CTState(0, openflow.CTTrk))...)
}

// translate looks a packet up, does to it what its connection says, and goes on in a table.
func (o Service) translate(table uint8) openflow.Action {
	return openflow.CT{Zone: o.VRF, Recirculate: true, Table: table, Actions: []openflow.Action{openflow.NAT{}}}
}

// commit gives a new connection its provider. The mark of the connection is the
// service's address.
func (o Service) commit(provider netip.Addr, port uint16) openflow.Action {
	return openflow.CT{Commit: true, Zone: o.VRF, Recirculate: true, Table: tableDest, Actions: []openflow.Action{
		openflow.NAT{Kind: openflow.NATDestination, MinIP: provider, MinPort: port},
		set(openflow.CTMark(binary.BigEndian.Uint32(o.VIP.AsSlice()), ^uint32(0))),
	}}
}

// matches is a port of the protocol.
func (p ServicePort) matches(tcp, udp func(uint16) openflow.FieldMatch, port uint16) openflow.Match {
	m := openflow.Match{openflow.IPProto(p.Protocol)}
	if p.Protocol == openflow.ProtoTCP {
		return append(m, tcp(port))
	}
	return append(m, udp(port))
}

// Groups of services have the upper half of the numbers.
const (
	groupServices uint32 = 1 << 31
	groupRange           = openflow.GroupMax - groupServices
)

// group is the number of a port's group: a hash, as it has to be the same in
// every run and there are more services and ports than numbers. Of a thousand
// ports, two have one number with a chance of 1 in 4,000.
func (o Service) group(p ServicePort) uint32 {
	h := fnv.New32a()
	h.Write([]byte(o.ID)) // never fails, as hash.Hash promises
	h.Write([]byte{0, p.Protocol, byte(p.Port >> 8), byte(p.Port)})
	return groupServices + h.Sum32()%groupRange
}

// Ended returns what ends the connections of the providers that a group of the
// switch has lost, by what it was and what it is. Nothing else would: what
// is translated is translated for as long as there are packets.
func Ended(before, after openflow.Group) []openflow.CTFlush {
	var ends []openflow.CTFlush
	for _, b := range before.Buckets {
		gone, ok := connectionsOf(b)
		if ok && !slices.ContainsFunc(after.Buckets, func(b openflow.Bucket) bool {
			still, ok := connectionsOf(b)
			return ok && still == gone
		}) {
			ends = append(ends, gone)
		}
	}
	return ends
}

// connectionsOf are the connections that a bucket has made, if it makes any.
func connectionsOf(b openflow.Bucket) (openflow.CTFlush, bool) {
	if len(b.Actions) != 1 {
		return openflow.CTFlush{}, false
	}
	ct, ok := b.Actions[0].(openflow.CT)
	if !ok || len(ct.Actions) != 2 {
		return openflow.CTFlush{}, false
	}
	nat, isNAT := ct.Actions[0].(openflow.NAT)
	mark, isMark := ct.Actions[1].(openflow.SetField)
	if !isNAT || !isMark {
		return openflow.CTFlush{}, false
	}
	vip := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(mark.Value.Lo))))
	return openflow.CTFlush{Zone: ct.Zone, To: vip, From: netip.AddrPortFrom(nat.MinIP, nat.MinPort)}, true
}

package pipeline

import (
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
//	SOURCE   counts it for the provider
//	DEST     a new one: the group of the port chooses a provider by a hash
//	           ct(commit,nat(dst=provider:port)), and begins again at SOURCE
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
// connections along (connection.go). One that drains keeps its connections and
// gets no new ones: its bucket has no weight.
//
// A provider that calls its own service may be given itself. It would not accept
// a packet from its own address, so it gets it from hairpinAddress, and
// what it answers there comes back to it:
//
//	OUTPUT   provider -> provider       from hairpinAddress, back to the port
//	ROUTER   provider -> hairpinAddress to the provider itself
//	OUTPUT   provider -> provider       translated as any answer, back to the port
//
// What else is sent to the address goes to table ANSWER: pings are answered,
// and connections refused (refuse.go).
type services struct{ gateway [6]byte }

// hairpinAddress is link-local, so no network has it; hosts send what they
// have for it to their gateway.
var hairpinAddress = netip.AddrFrom4([4]byte{169, 254, 0, 253})

func (s services) base(w *Wants) {
	v4 := ipv4()
	w.flow(at(tableRouter, priorityExcept, openflow.EthDst(s.gateway), v4.is(), v4.dst(openflow.Host(hairpinAddress))).
		do(openflow.MoveAll(v4.srcField, v4.dstField), regRouted.set(1)).goTo(tableDest))
}

func (s services) service(w *Wants, o Service) {
	w.flow(
		answerARP(o.Tag, o.VIP, s.gateway),
		s.arrival(o, priorityRefuse).goTo(tableAnswer))
	providers := slices.Concat(o.Providers, o.Draining)
	if len(o.Ports) == 0 || len(providers) == 0 {
		return
	}
	// Only the first fragment has ports; the connection tracker puts them together.
	for _, m := range append(errorMatches(), openflow.Match{openflow.IPFragment()}) {
		w.flow(s.arrival(o, priorityExcept, m...).do(regRouted.set(1), o.translate(tableSource)).end())
	}
	for _, a := range providers {
		for _, m := range []openflow.FieldMatch{ipv4().isICMP(), openflow.IPFragment()} {
			w.flow(o.departure(priorityService, m, ipv4().src(openflow.Host(a))).do(o.translate(tableOutput)).end())
		}
	}
	for _, p := range o.Ports {
		s.port(w, o, p)
		for _, a := range providers {
			s.answers(w, o, p, a)
		}
	}
}

// errorMatches match the ICMP errors about a packet of a connection: unreachable (and
// too large), time exceeded, parameter problem.
func errorMatches() (list []openflow.Match) {
	for _, t := range []uint8{3, 11, 12} {
		list = append(list, openflow.Match{ipv4().isICMP(), openflow.ICMPType(t)})
	}
	return list
}

// port balances what is for one port.
func (s services) port(w *Wants, o Service, p ServicePort) {
	group := openflow.Group{ID: p.Group, Type: openflow.GroupSelect}
	for _, a := range o.Providers {
		group.Buckets = append(group.Buckets, openflow.Bucket{Weight: 1, Actions: o.commit(p, a)})
	}
	for _, a := range o.Draining {
		group.Buckets = append(group.Buckets, openflow.Bucket{Actions: o.commit(p, a)})
	}
	w.Groups = append(w.Groups, group)
	to := p.matches(openflow.TCPDst, openflow.UDPDst, p.Port)
	w.flow(s.arrival(o, priorityExcept, to...).do(regRouted.set(1), o.translate(tableSource)).end())
	for _, a := range slices.Concat(o.Providers, o.Draining) {
		w.flow(at(tableSource, priorityExcept, o.match(ipv4().dst(openflow.Host(a)),
			openflow.CTState(openflow.CTTrk, openflow.CTTrk), p.mark(), o.label())...).goTo(tableDest))
	}
	if len(o.Providers) == 0 {
		w.flow(o.fresh(priorityExcept, to...).goTo(tableAnswer))
		return
	}
	choose := openflow.OutputGroup{ID: group.ID}
	if p.Protocol == openflow.ProtoTCP {
		w.flow(o.fresh(priorityExcept, to...).do(choose).end())
		return
	}
	w.flow(o.fresh(priorityExcept, to...).do(spreadUDP(), choose).end())
	if o.onlyUDP() {
		// All fragments must get the same provider.
		w.flow(o.fresh(priorityService, openflow.IPProto(p.Protocol), openflow.IPFragment()).do(choose).end())
	}
}

// onlyUDP tells whether the service has one UDP port. Then a fragment tells what it
// is for without having ports.
func (o Service) onlyUDP() bool {
	tcp := func(p ServicePort) bool { return p.Protocol == openflow.ProtoTCP }
	return len(slices.DeleteFunc(slices.Clone(o.Ports), tcp)) == 1
}

// spreadUDP makes the hash of a group depend on the client's UDP port. Open
// vSwitch hashes addresses, and ports for TCP only, so some bits of the port go
// into the address of the service; the bucket writes it anew. Six bits are enough, as
// there are not more than 64 values of the hash. The lowest is left out: Linux
// prefers even ports.
func spreadUDP() openflow.Action {
	return openflow.Move{Src: openflow.FieldUDPSrc, SrcOfs: 1, Dst: openflow.FieldIPv4Dst, Bits: 6}
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
func (s services) arrival(o Service, priority uint16, more ...openflow.FieldMatch) flowBuilder {
	return at(tableRouter, priority, append(o.match(more...), openflow.EthDst(s.gateway), ipv4().dst(openflow.Host(o.VIP)))...)
}

// fresh matches what is still for a service: it begins a connection.
func (o Service) fresh(priority uint16, more ...openflow.FieldMatch) flowBuilder {
	return at(tableDest, priority, append(o.match(more...), ipv4().dst(openflow.Host(o.VIP)),
		openflow.CTState(openflow.CTNew|openflow.CTTrk, openflow.CTNew|openflow.CTTrk))...)
}

// departure matches what is about to be delivered and has not been looked up.
func (o Service) departure(priority uint16, more ...openflow.FieldMatch) flowBuilder {
	return at(tableOutput, priority, append(o.match(more...), openflow.CTState(0, openflow.CTTrk))...)
}

// translate looks a packet up, does to it what its connection says, and goes on in a table.
func (o Service) translate(table uint8) openflow.Action {
	return openflow.CT{Zone: o.VRF, Recirculate: true, Table: table, Actions: []openflow.Action{openflow.NAT{}}}
}

// matches is a port of the protocol.
func (p ServicePort) matches(tcp, udp func(uint16) openflow.FieldMatch, port uint16) openflow.Match {
	m := openflow.Match{openflow.IPProto(p.Protocol)}
	if p.Protocol == openflow.ProtoTCP {
		return append(m, tcp(port))
	}
	return append(m, udp(port))
}

package pipeline

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
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
//	           ct(commit,nat(dst=provider:port)), and begins again at BEGUN
//	BEGUN    has it been taken in? Then on to SOURCE
//	         otherwise it is for the provider now, as any packet
//	OUTPUT   from a provider's port to a local endpoint: if it is an answer of
//	           a translated connection, it comes from the service again (answered.go)
//
// Whatever is neither sent to a service nor comes from the port of a provider
// never sees the connection tracker, but for ICMP errors from other nodes and from outside:
// a router on the way to a provider says them of what the client sent to the service (related.go).
// Between ROUTER and OUTPUT a packet has the address of the provider. The policy knows
// nothing of services: it is judged between the client and the provider, in both directions
// and on both nodes.
//
// Which provider a connection has is known to the connection tracker only.
// Another provider changes nothing about it; one that goes takes its own
// connections along (connection.go). One that drains keeps its connections and
// gets no new ones: its bucket has no weight.
//
// A provider that calls its own service may be given itself. It would not accept
// a packet from its own address, so it gets it from another one, and
// what it answers there comes back to it:
//
//	OUTPUT   provider -> provider       from that address, back to the port
//	ROUTER   provider -> that address   to the provider itself
//	OUTPUT   provider -> provider       translated as any answer, back to the port
//
// In a bridged network (bridge.go) there may be no gateway to send that to. There it
// comes from the address of the service, for which every endpoint asks its neighbours:
//
//	ROUTER   provider:port -> service   to the provider itself
//
// What else is sent to the address goes to table ANSWER: pings are answered,
// and connections refused (refuse.go). Who is not an endpoint comes in by the
// host (entrance.go).
type services struct{ gateway [6]byte }

// hairpin numbers the address from which a provider gets what it sends itself,
// among those on the link of the name server. No network has them; hosts send what
// they have for them to their gateway.
const hairpin = 0xfd

func (f family) hairpinAddress() netip.Addr {
	return NamesAsker(NamesPrefixes()[f.index()], hairpin)
}

func (s services) base(w *Wants) {
	for _, f := range []family{ipv4(), ipv6()} {
		w.flow(at(tableRouter, priorityExcept, openflow.EthDst(s.gateway), f.is(), f.dst(inet.Host(f.hairpinAddress()))).
			do(openflow.MoveAll(f.srcField, f.dstField), regRouted.set(1)).goTo(tableDest))
	}
}

func (s services) service(w *Wants, wanted Service) {
	o, own, serving := arrange(wanted), wanted.addresses(FromPods), wanted.serving()
	for _, a := range own {
		if a.Is4() {
			w.flow(answerARP(o.Tag, a, s.gateway))
		} else {
			w.flow(answerND(o.Tag, a, s.gateway))
		}
		w.flow(
			s.arrival(o.Service, a, priorityRefuse).goTo(tableAnswer),
			// Wherever a route leads, what is still for the service goes nowhere, such as later fragments of what is refused.
			at(tableDest, priorityRefuse, o.match(familyOf(a).is(), familyOf(a).dst(inet.Host(a)), regRouted.is(1))...).drop(reasonNoProvider))
		if !serving[a] {
			continue
		}
		for _, m := range withoutPorts(a) {
			w.flow(s.arrival(o.Service, a, priorityExcept, m...).do(regRouted.set(1), o.translate(tableSource)).end())
		}
	}
	s.atMachines(w, o, serving)
	for _, a := range o.served() {
		for _, m := range []openflow.FieldMatch{familyOf(a).isICMP(), openflow.IPFragment()} {
			w.flow(o.departure(priorityService, a, m).do(o.lookUpAnswer(a)...).end())
		}
	}
	for _, p := range o.Ports {
		if len(o.behind(p)) > 0 || p.Silent {
			s.port(w, o, p)
		}
	}
	for _, b := range o.backends(^Clients(0)) {
		s.answers(w, wanted, own, b)
	}
}

// withoutPorts match what is sent to a service for its connections and does not say their ports: later
// fragments, which the connection tracker puts together, and ICMP errors. A first fragment says its port, and
// is looked up only if the port is served, and to this client.
func withoutPorts(of netip.Addr) []openflow.Match {
	return append(errorsAbout(of), openflow.Match{openflow.IPLaterFragment()})
}

// ofAnyPort match what a provider says without its port. Of what it sends in fragments all are looked up
// or none, also if it is from no port of the service: else the tracker would keep the later ones in vain.
func ofAnyPort(provider netip.Addr) []openflow.Match {
	return append(errorsAbout(provider), openflow.Match{openflow.IPFragment()})
}

// errorsAbout match ICMP errors about a packet of a connection: unreachable, too large, time exceeded,
// parameter problem.
func errorsAbout(a netip.Addr) (list []openflow.Match) {
	f := familyOf(a)
	for _, t := range f.errors {
		list = append(list, openflow.Match{f.isICMP(), f.icmpType(t)})
	}
	return list
}

// port balances what is for one port.
func (s services) port(w *Wants, o arranged, p ServicePort) {
	serving, draining := o.providers(p)
	var choices [][]openflow.Action
	for _, a := range serving {
		choices = append(choices, o.choice(p, a))
	}
	group := openflow.Group{ID: p.Group, Type: openflow.GroupSelect, Buckets: evenly(choices)}
	for _, a := range draining {
		group.Buckets = append(group.Buckets, openflow.Bucket{Actions: o.choice(p, a)})
	}
	if len(group.Buckets) > 0 {
		w.Groups = append(w.Groups, group)
	}
	if to := p.looked(); p.From&FromPods != 0 {
		p.admit(w, netip.Prefix{}, priorityExcept, func(priority uint16, from ...openflow.FieldMatch) flowBuilder {
			return s.arrival(o.Service, p.Address, priority, append(from, to...)...)
		}, regRouted.set(1), o.translate(tableSource))
	}
	for _, a := range o.counted(p) {
		w.flow(at(tableSource, priorityExcept, o.match(familyOf(a).is(), familyOf(a).dst(inet.Host(a)),
			openflow.CTState(openflow.CTTrk, openflow.CTTrk), p.mark(), p.label())...).goTo(tableDest))
	}
	o.countAnswers(w, p)
	switch begins := o.fresh(priorityExcept, p, p.begins()...); {
	case len(serving) > 0:
	case p.Silent:
		w.flow(begins.drop(reasonNoProvider))
		return
	default:
		w.flow(begins.goTo(tableAnswer))
		return
	}
	if o.Affinity == 0 {
		o.choose(w, p, priorityExcept, priorityService)
		return
	}
	o.affinity(w, p)
	o.choose(w, p, priorityChoose, priorityHairpin, regAffinity.is(1))
}

// choose lets the group of a port find a provider. Fragments have a higher priority, as they
// must all get the same one.
func (o arranged) choose(w *Wants, p ServicePort, port, fragments uint16, more ...openflow.FieldMatch) {
	group := openflow.OutputGroup{ID: p.Group}
	to := o.fresh(port, p, append(p.begins(), more...)...)
	if p.Protocol == openflow.ProtoUDP {
		to = to.do(spreadUDP(p.Address))
	}
	w.flow(to.do(group).end())
	for _, m := range o.fragments(p) {
		w.flow(o.fresh(fragments, p, append(m, more...)...).do(group).end())
	}
}

// fragments match those that can only be for a port of UDP, though they do not say it: the service has no other
// UDP port at the address.
func (o arranged) fragments(p ServicePort) (list []openflow.Match) {
	if p.Protocol != openflow.ProtoUDP || p.Shared || p.Machine || p.Mixed || o.onlyUDP[p.Address] != p.Port {
		return nil
	}
	for _, protocol := range familyOf(p.Address).fragmentsOf(p.Protocol) {
		list = append(list, openflow.Match{openflow.IPProto(protocol), openflow.IPFragment()})
	}
	return list
}

// answers restores the service as the sender of what a provider answers. Own are its addresses for endpoints.
func (s services) answers(w *Wants, o Service, own []netip.Addr, b backend) {
	provider := b.at.Addr()
	f := familyOf(provider)
	from, to := f.src(inet.Host(provider)), f.dst(inet.Host(provider))
	answer := b.matches(openflow.TCPSrc, openflow.UDPSrc)
	asker, sender := f.hairpinAddress(), []openflow.Action(nil)
	same := func(a netip.Addr) bool { return a.Is4() == provider.Is4() }
	if i := slices.IndexFunc(own, same); o.Mode.Bridged() && i >= 0 { // there is one of each version of IP
		asker, sender = own[i], []openflow.Action{set(openflow.EthSrc(s.gateway))}
		w.flow(s.arrival(o, asker, priorityService, append(answer, from)...).
			do(openflow.MoveAll(f.srcField, f.dstField), regRouted.set(1)).goTo(tableDest))
	}
	request := append(b.matches(openflow.TCPDst, openflow.UDPDst), f.is(), from, to, openflow.CTState(openflow.CTTrk, openflow.CTTrk))
	w.flow(
		o.departure(priorityExcept, provider, answer...).do(o.lookUpAnswerOf(b)...).end(),
		o.departure(priorityHairpin, provider, append(answer, to)...).do(sender...).do(regOut.set(outBack)).do(o.lookUpAnswerOf(b)...).end(),
		at(tableOutput, priorityHairpin, o.match(request...)...).
			do(sender...).do(set(f.src(inet.Host(asker))), openflow.Output{Port: openflow.PortInPort}).end())
}

// match adds the VRF of a service.
func (o Service) match(more ...openflow.FieldMatch) openflow.Match {
	return append(openflow.Match{regVRF.is(uint32(o.VRF))}, more...)
}

// arrival matches what a local endpoint sends to an address of a service.
func (s services) arrival(o Service, to netip.Addr, priority uint16, more ...openflow.FieldMatch) flowBuilder {
	f := familyOf(to)
	m := o.match(f.is(), openflow.EthDst(s.gateway), f.dst(inet.Host(to)))
	if o.Mode.Bridged() {
		m = append(m, regNetwork.is(uint32(o.Tag)))
	}
	return at(tableRouter, priority, append(m, more...)...)
}

// fresh matches what is still for a service: it begins a connection.
func (o arranged) fresh(priority uint16, p ServicePort, more ...openflow.FieldMatch) flowBuilder {
	f := familyOf(p.Address)
	return at(tableDest, priority, slices.Concat(o.match(f.is(), f.dst(inet.Host(p.Address)),
		openflow.CTState(openflow.CTNew|openflow.CTTrk, openflow.CTNew|openflow.CTTrk)), o.outer(p), more)...)
}

// departure matches what is about to be delivered from a provider and has not been looked up.
// What is flooded is no answer, and of its copies, if they are fragments, the connection
// tracker might make one packet.
func (o Service) departure(priority uint16, from netip.Addr, more ...openflow.FieldMatch) flowBuilder {
	f := familyOf(from)
	m := o.match(f.is(), f.src(inet.Host(from)), openflow.CTState(0, openflow.CTTrk))
	if o.Mode.Bridged() {
		m = append(m, regFlooded.is(0))
	}
	return at(tableOutput, priority, append(m, more...)...)
}

// translate looks a packet up, does to it what its connection says, and goes on in a table.
func (o Service) translate(table uint8) openflow.Action {
	return openflow.CT{Zone: o.VRF, Recirculate: true, Table: table, Actions: []openflow.Action{openflow.NAT{}}}
}

// matches is the port at which clients ask.
func (p ServicePort) matches(tcp, udp func(uint16) openflow.FieldMatch, port uint16) openflow.Match {
	return backend{p.Protocol, netip.AddrPortFrom(p.Address, port)}.matches(tcp, udp)
}

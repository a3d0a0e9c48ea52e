package pipeline

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// services are virtual addresses, each with providers behind it.
//
// A packet for a service is routed: ARP and ND for the address are answered with the
// gateway's MAC. The connection tracker translates the packet on the client's node, with
// one zone for each VRF:
//
//	ROUTER   for a port of the service: ct(nat), by the connection's entry if there is one
//	SOURCE   counts it for the provider
//	DEST     not translated, so a new connection: the group of the port chooses a provider
//	           by a hash, ct(commit,nat(dst=provider:port)), and resubmits to BEGUN
//	BEGUN    committed? Then on to SOURCE
//	         from here on it is forwarded to the provider like any packet
//	OUTPUT   from a provider's port to a local endpoint: if it is an answer of
//	           a translated connection, its source becomes the service again (answered.go)
//
// Other packets never pass the connection tracker, except ICMP errors from other nodes and from outside: a
// router on the path to a provider sends them about translated packets (related.go). Between ROUTER and OUTPUT
// a packet has the address of the provider. Policies are independent of services: they apply between the client
// and the provider, in both directions and on both nodes.
//
// Only the connection tracker knows the provider of a connection. Adding a provider
// does not change existing connections; removing one removes its own
// (connection.go). A provider that drains keeps its connections and
// gets no new ones: its bucket has weight 0.
//
// A provider may be chosen for a connection to its own service. It would not accept
// a packet with its own source address, so the packet gets another source, and
// answers to that address come back to the provider:
//
//	OUTPUT   provider -> provider       from that address, back to the port
//	ROUTER   provider -> that address   to the provider itself
//	OUTPUT   provider -> provider       translated as any answer, back to the port
//
// In a bridged network (bridge.go) there may be no gateway for such answers. There the source
// is the address of the service, which every endpoint resolves by ARP or ND:
//
//	ROUTER   provider:port -> service   to the provider itself
//
// All else that is sent to the address goes to table ANSWER: pings are answered, and connections refused
// (refuse.go). Clients that are no endpoints come in by the host (entrance.go).
type services struct{ gateway [6]byte }

// hairpin is the number of the source address for a provider that is its own client, among
// the addresses on the link of the name server. No network has these addresses; endpoints send
// packets for them to their gateway.
const hairpin = 0xfd

func (f family) hairpinAddress() netip.Addr {
	return privateAddress(NamesPrefixes()[f.index()], hairpin)
}

func (s services) base(w *Wants) {
	for _, f := range []family{ipv4(), ipv6()} {
		w.flow(at(tableRouter, priorityExcept, openflow.EthDst(s.gateway), f.is(), f.dst(inet.Host(f.hairpinAddress()))).
			do(openflow.MoveAll(f.srcField, f.dstField), regRouted.set(1)).goTo(tableDest))
	}
}

func (s services) service(w *Wants, wanted Service) {
	o, own, serving := indexService(wanted), wanted.addresses(FromPods), wanted.serving()
	for _, a := range own {
		if a.Is4() {
			w.flow(answerARP(o.Tag, a, s.gateway))
		} else {
			w.flow(answerND(o.Tag, a, s.gateway))
		}
		w.flow(
			s.arrival(o.Service, a, priorityRefuse).goTo(tableAnswer),
			// Packets that are not translated, such as later fragments of a refused datagram, must not follow a route.
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

// withoutPorts matches packets to a service that belong to connections but have no ports: later fragments,
// which the connection tracker reassembles, and ICMP errors. A first fragment has its port, and is looked up
// only if the port is served to this client.
func withoutPorts(of netip.Addr) []openflow.Match {
	return append(errorsAbout(of), openflow.Match{openflow.IPLaterFragment()})
}

// ofAnyPort matches packets of a provider that have no port. All fragments of a datagram are looked up, even if
// it is from no port of the service: otherwise the tracker would make the later ones wait for the first.
func ofAnyPort(provider netip.Addr) []openflow.Match {
	return append(errorsAbout(provider), openflow.Match{openflow.IPFragment()})
}

// errorsAbout matches ICMP errors about a packet of a connection: unreachable, too large, time exceeded, parameter
// problem.
func errorsAbout(a netip.Addr) (list []openflow.Match) {
	f := familyOf(a)
	for _, t := range f.errors {
		list = append(list, openflow.Match{f.isICMP(), f.icmpType(t)})
	}
	return list
}

// port has the flows and groups that balance one port.
func (s services) port(w *Wants, o indexedService, p ServicePort) {
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

// choose lets the group of a port choose a provider. Flows for fragments have a higher priority, since all
// fragments of a datagram must get the same one.
func (o indexedService) choose(w *Wants, p ServicePort, port, fragments uint16, more ...openflow.FieldMatch) {
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

// fragments matches the later fragments that can only be for one UDP port, although they contain none: the
// service has no other UDP port at the address.
func (o indexedService) fragments(p ServicePort) (list []openflow.Match) {
	if p.Protocol != openflow.ProtoUDP || p.Shared || p.Machine || p.Mixed || o.onlyUDP[p.Address] != p.Port {
		return nil
	}
	for _, protocol := range familyOf(p.Address).fragmentsOf(p.Protocol) {
		list = append(list, openflow.Match{openflow.IPProto(protocol), openflow.IPFragment()})
	}
	return list
}

// answers has the flows that restore the service as the source of a provider's answers. own are its addresses for
// endpoints.
func (s services) answers(w *Wants, o Service, own []netip.Addr, b backend) {
	provider := b.at.Addr()
	f := familyOf(provider)
	from, to := f.src(inet.Host(provider)), f.dst(inet.Host(provider))
	answer := b.matches(openflow.TCPSrc, openflow.UDPSrc)
	asker, sender := f.hairpinAddress(), []openflow.Action(nil)
	same := func(a netip.Addr) bool { return a.Is4() == provider.Is4() }
	if i := slices.IndexFunc(own, same); o.Mode.Bridged() && i >= 0 { // there is one of each IP family
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

// arrival matches packets of a local endpoint to an address of a service.
func (s services) arrival(o Service, to netip.Addr, priority uint16, more ...openflow.FieldMatch) flowBuilder {
	f := familyOf(to)
	m := o.match(f.is(), openflow.EthDst(s.gateway), f.dst(inet.Host(to)))
	if o.Mode.Bridged() {
		m = append(m, regNetwork.is(uint32(o.Tag)))
	}
	return at(tableRouter, priority, append(m, more...)...)
}

// fresh matches packets that the tracker has not translated: they begin a connection.
func (o indexedService) fresh(priority uint16, p ServicePort, more ...openflow.FieldMatch) flowBuilder {
	f := familyOf(p.Address)
	return at(tableDest, priority, slices.Concat(o.match(f.is(), f.dst(inet.Host(p.Address)),
		openflow.CTState(openflow.CTNew|openflow.CTTrk, openflow.CTNew|openflow.CTTrk)), o.outer(p), more)...)
}

// departure matches packets of a provider before delivery that have not been looked up. Flooded packets are
// excluded: they are no answers, and the connection tracker might reassemble fragments of several copies to one
// packet.
func (o Service) departure(priority uint16, from netip.Addr, more ...openflow.FieldMatch) flowBuilder {
	f := familyOf(from)
	m := o.match(f.is(), f.src(inet.Host(from)), openflow.CTState(0, openflow.CTTrk))
	if o.Mode.Bridged() {
		m = append(m, regFlooded.is(0))
	}
	return at(tableOutput, priority, append(m, more...)...)
}

// translate returns ct(nat): it translates a packet by the entry of its connection, and continues in a table.
func (o Service) translate(table uint8) openflow.Action {
	return openflow.CT{Zone: o.VRF, Recirculate: true, Table: table, Actions: []openflow.Action{openflow.NAT{}}}
}

// matches matches a port number of the service, by functions for its protocol.
func (p ServicePort) matches(tcp, udp func(uint16) openflow.FieldMatch, port uint16) openflow.Match {
	return backend{p.Protocol, netip.AddrPortFrom(p.Address, port)}.matches(tcp, udp)
}

package pipeline

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// entrance has the flows by which clients that are no endpoints reach services: processes of the host, and
// external machines through the host, at addresses that are served FromHost. The host only routes such an
// address to its port of the switch, and translates its own address and a node port to NodePorts and that port.
//
//	CLASSIFY  packets of the host's port that are not for an endpoint
//	ROUTER    for a port of a service: VRF and network become those of the service; from
//	            here on it is handled like an endpoint's packet
//
// Providers see the client's own address. A provider may be on another node; that node must record through
// which node the client came in, and send the answers there, where the connection is translated:
//
//	OUTPUT    into the tunnel           source MAC entranceMAC
//	PEER      out of it, entranceMAC    SCRATCH: the number of the node; PEER again
//	PEER      TCP, to an endpoint here  destination made of node and port: ct(commit,nat(dst=provider))
//	          anything else             ct(commit); the label of both is the VTEP of the other node
//	FORWARD   from a provider's port, for no endpoint: ct
//	            a connection that came in by another node: from the provider again, into the tunnel to that node
//	            a connection that came in by this host: translated back, to the host
//	            no such connection: like any packet
//
// An external client may use one source port for connections to several nodes, since the nodes have different
// addresses. If two of these connections reach the same port of one provider, their packets are equal there. For
// TCP the connection tracker distinguishes them by the original destination, and gives the later connection
// another source port. For clients that entered by this host, the original destination is the service. For others
// it is an address made of the number of their node and the number of the provider's switch port. That address is
// translated to the provider's at once, so no packet leaves with it, and answers get the provider's address as
// source again. ICMP errors are not translated, since they would quote that address. UDP is not distinguished: the
// userspace datapath (3.1) corrupts later fragments when it writes an IPv4 address into them.
//
// The highest bits of a connection's mark are ORIGIN, which distinguishes these connections.
// For such clients no groups are looked up, whatever address they have.
type entrance struct {
	gateway    [6]byte
	tunnelPort uint32
	underlay6  bool // tunnels are of IPv6
	size       tooBig
}

// entranceMAC is the source MAC, in tunnels, of packets whose client came in by the host.
var entranceMAC = [6]byte{0x02, 0x63, 0x6e, 0x73, 0x00, 0x02}

// outsideNode is the number of the private address with the node ports, in both IP families. No
// port of the switch has this number.
const outsideNode = 0xfffd

// NodePorts returns the address of the node ports at a host's port.
func NodePorts(private netip.Prefix) netip.Addr { return OutsideAddress(private, outsideNode) }

// origin matches connections by the ORIGIN in their mark.
func origin(of uint32) openflow.FieldMatch {
	return openflow.CTMark(of<<markOrigin, (1<<regOrigin.Bits-1)<<markOrigin)
}

func (e entrance) base(w *Wants) {
	w.flow(
		at(tableRouter, priorityOther, regOrigin.is(originEntered)).drop(reasonUnknown),
		at(tableSource, priorityRefuse, regOrigin.is(originEntered)).goTo(tableDest))
	untracked := []openflow.Action{set(openflow.EthSrc(e.gateway)), byNode.set(0)}
	for _, f := range []family{ipv4(), ipv6()} {
		w.flow(entering(priorityExcept, f.is()).do(untracked...).do(e.remember(openflow.CT{
			ZoneField: openflow.Subfield{Field: openflow.FieldReg(regVRF.Index), Bits: regVRF.Bits}})).end())
		for _, kind := range f.errors {
			w.flow(entering(priorityHairpin, f.is(), f.isICMP(), f.icmpType(kind)).do(untracked...).backTo(tableDest))
		}
	}
	if e.tunnelPort != 0 {
		w.flow(at(tableOutput, priorityEntered, regOut.is(e.tunnelPort), regOrigin.is(originEntered)).
			do(set(openflow.EthSrc(entranceMAC)), openflow.Output{Port: e.tunnelPort}).end())
	}
}

const (
	bitsNode   = 16            // of a node's number: the last ones of its VTEP
	bitsNumber = 16            // of a port's number
	cameBy     = 1 << bitsNode // is set in SCRATCH once the number of the node is there, which may be 0
)

// byNode is the word of SCRATCH with cameBy and the number of the node.
var byNode = Register{regScratch.Name, regScratch.Index + 3, 0, 32, regScratch.Does}

// entering matches packets of clients that came in by another node, once byNode has its number.
func entering(priority uint16, more ...openflow.FieldMatch) flowBuilder {
	return at(tablePeer, priority, append([]openflow.FieldMatch{openflow.EthSrc(entranceMAC), openflow.Reg(byNode.Index, cameBy, cameBy)}, more...)...)
}

// peer has the flows that record the node through which a client came in. Connections of one client by nodes with
// equal numbers are not distinguished.
func (e entrance) peer(w *Wants, p Peer) {
	vtep := p.VTEP.AsSlice()
	number := uint32(binary.BigEndian.Uint16(vtep[len(vtep)-2:]))
	for _, f := range []family{ipv4(), ipv6()} {
		w.flow(peers{}.sends(p.VTEP, priorityExcept, openflow.EthSrc(entranceMAC), byNode.is(0), f.is()).
			do(byNode.set(cameBy | number)).backTo(tablePeer))
	}
}

// remember commits a connection with the VTEP of the node by which it came as label.
func (e entrance) remember(as openflow.CT) openflow.Action {
	label, vtep := openflow.Subfield{Field: openflow.FieldCTLabel, Bits: 32}, openflow.FieldTunSrc
	if e.underlay6 {
		label.Bits, vtep = 128, openflow.FieldTunIPv6Src
	}
	as.Commit, as.Recirculate, as.Table = true, true, tableBegun
	as.Actions = append(as.Actions, set(openflow.CTMark(originTunnel<<markOrigin, ^uint32(0))), openflow.Move{Src: vtep, Dst: label.Field, Bits: label.Bits})
	return as
}

// endpoint has the flows that distinguish TCP connections to an endpoint by the node through which they came in.
func (e entrance) endpoint(w *Wants, p placed) {
	if !p.local() || p.Mode.Bridged() || p.Encap == VLAN {
		return
	}
	for _, a := range p.addresses() {
		f := familyOf(a)
		w.flow(entering(priorityService, f.is(), openflow.IPProto(openflow.ProtoTCP), openflow.IPWhole(), regVRF.is(uint32(p.VRF)), f.dst(inet.Host(a))).do(
			set(openflow.EthSrc(e.gateway)),
			openflow.Load{Field: f.dstField, Bits: bitsNumber, Value: uint64(p.port)},
			openflow.Move{Src: openflow.FieldReg(byNode.Index), Dst: f.dstField, DstOfs: bitsNumber, Bits: bitsNode},
			byNode.set(0),
			e.remember(openflow.CT{Zone: p.VRF, Actions: []openflow.Action{openflow.NAT{Kind: openflow.NATDestination, MinIP: a}}})).end())
	}
}

// network has the flow that sends answers to the node through which the client came in.
func (e entrance) network(w *Wants, n Network) {
	if n.Mode.Bridged() || n.Encap == VLAN {
		return
	}
	from, to, bits := openflow.FieldCTLabel, openflow.FieldTunDst, uint16(32)
	if e.underlay6 {
		to, bits = openflow.FieldTunIPv6Dst, 128
	}
	for _, a := range n.gateways() {
		f := familyOf(a)
		for _, protocol := range f.ofConnections() {
			flow := unreceived(priorityAnswer, regNetwork.is(uint32(n.Tag)), f.is(), openflow.IPProto(protocol), answering(), origin(originTunnel))
			if protocol == openflow.ProtoTCP {
				flow = flow.do(fromKept(f)...)
			}
			w.flow(flow.do(e.size.check()...).do(openflow.DecTTL{}, set(openflow.EthSrc(e.gateway)), set(openflow.TunnelID(uint64(n.VNI))),
				openflow.Move{Src: from, Dst: to, Bits: bits}, regOut.set(e.tunnelPort)).goTo(tableOutput))
		}
	}
}

// ofConnections returns the protocols of answers: of services, and of errors about them.
func (f family) ofConnections() (all []uint8) {
	return slices.Concat([]uint8{openflow.ProtoTCP, f.icmp}, f.fragmentsOf(openflow.ProtoUDP))
}

// answering matches packets of an established connection in the reply direction.
func answering() openflow.FieldMatch {
	return openflow.CTState(openflow.CTTrk|openflow.CTRpl, openflow.CTTrk|openflow.CTRpl)
}

func (e entrance) outside(w *Wants, o Outside, port uint32) {
	questions(w, port)
	toHost := []openflow.Action{set(openflow.EthSrc(e.gateway)), set(openflow.EthDst(o.MAC)), regOut.set(port)}
	for _, p := range o.Prefixes() {
		f := familyOf(p.Addr())
		node := f.dst(inet.Host(NodePorts(p)))
		w.flow(
			at(tableClassify, priorityIP, openflow.InPort(port), f.is()).do(arrived(originEntered)...).goTo(tableRouter),
			at(tableClassify, priorityExcept, openflow.InPort(port), f.is(), node).do(arrived(originEntered)...).goTo(tableRouter),
			at(tableClassify, priorityAnswer, openflow.InPort(port), f.is(), f.dst(AllStandIns(p))).do(arrived(originEntered)...).goTo(tableRouter),
			at(tableRouter, priorityRefuse, regOrigin.is(originEntered), f.is(), node).goTo(tableAnswer),
			// A packet that is not translated here belongs to no connection, and would go back to the host.
			at(tableDest, priorityRefuse, regOrigin.is(originEntered), f.is(), node).drop(reasonNoProvider),
			at(tableForward, priorityAnswer, regOut.is(0), f.is(), answering(), origin(originEntered)).
				do(e.size.check()...).do(toHost...).goTo(tableOutput))
		if o.Entered == 0 {
			continue
		}
		for _, m := range errorsAbout(p.Addr()) {
			w.flow(entered(NodePorts(p), priorityExcept, append(m, openflow.IPWhole())...).do(enterNodePort(o.Entered)...).end())
		}
	}
}

func (e entrance) service(w *Wants, o Service) {
	if o.Encap == VLAN || !slices.ContainsFunc(o.Ports, func(p ServicePort) bool { return p.From&^FromPods != 0 }) {
		return
	}
	clients, pods := o.clients(), o.addresses(FromPods)
	for _, a := range slices.Concat(o.addresses(FromHost), o.addresses(FromTenants)) { // a whole address of the service
		if !slices.Contains(pods, a) { // which another address stands in for
			w.flow(at(tableDest, priorityRefuse, o.match(regOrigin.is(originEntered), familyOf(a).is(), familyOf(a).dst(inet.Host(a)))...).drop(reasonNoProvider))
		}
		w.flow(entered(a, priorityRefuse).goTo(tableAnswer))
		for _, m := range withoutPorts(a) {
			w.flow(entered(a, priorityExcept, m...).do(o.enter()...).do(o.translate(tableSource)).end())
		}
		o.takeIn(a, clients[a]&FromOutside, func(from netip.Prefix, priority uint16, actions ...openflow.Action) {
			m := []openflow.FieldMatch{openflow.IPLaterFragment()}
			if from.IsValid() {
				m = append(m, familyOf(a).src(from))
			}
			w.flow(entered(a, priority, m...).do(actions...).end())
		})
	}
	for _, p := range o.Ports {
		if len(o.behind(p)) > 0 || p.Silent {
			e.port(w, o, p)
		}
	}
	leaving := func(a netip.Addr, m openflow.Match, look ...openflow.Action) {
		w.flow(at(tableForward, priorityService, append(o.match(familyOf(a).is(), familyOf(a).src(inet.Host(a)),
			regOut.is(0), openflow.CTState(0, openflow.CTTrk)), m...)...).do(look...).end())
	}
	for _, b := range o.backends(^FromPods) {
		leaving(b.at.Addr(), b.matches(openflow.TCPSrc, openflow.UDPSrc), o.lookUpAnswerOf(b)...)
	}
	for _, a := range o.served() {
		for _, m := range errorsAbout(a) {
			leaving(a, m, o.lookUpError(a)...)
		}
		leaving(a, openflow.Match{openflow.IPFragment()}, o.lookUpAnswer(a)...)
	}
}

// port has the flows for packets to a port of a service.
func (e entrance) port(w *Wants, o Service, p ServicePort) {
	to := p.matches(openflow.TCPDst, openflow.UDPDst, p.Port)
	o.takeIn(p.Address, p.From, func(of netip.Prefix, priority uint16, actions ...openflow.Action) {
		p.admit(w, of, priority, func(priority uint16, from ...openflow.FieldMatch) flowBuilder {
			return entered(p.Address, priority, append(from, to...)...)
		}, actions...)
	})
}

// takeIn adds the flows for packets of some clients to an address. Where clients from outside are
// distinguished, these are all whose address is not in Inner.
func (o Service) takeIn(a netip.Addr, clients Clients, add func(from netip.Prefix, priority uint16, actions ...openflow.Action)) {
	look := append(o.enter(), o.translate(tableSource))
	if clients&(FromHost|FromTenants) != 0 {
		add(netip.Prefix{}, priorityExcept, look...)
	}
	if clients&FromOutside == 0 {
		return
	}
	add(netip.Prefix{}, priorityService, slices.Concat(o.enter(), []openflow.Action{regOuter.set(1), o.translate(tableSource)})...)
	for _, inner := range o.Inner {
		if inner.Addr().Is4() == a.Is4() {
			add(inner, priorityHairpin, look...)
		}
	}
}

// clients returns, by address, the kinds of clients that some port at the address serves.
func (o Service) clients() map[netip.Addr]Clients {
	all := map[netip.Addr]Clients{}
	for _, p := range o.Ports {
		all[p.Address] |= p.From
	}
	return all
}

// entered matches packets that came in by the host, to an address.
func entered(to netip.Addr, priority uint16, more ...openflow.FieldMatch) flowBuilder {
	f := familyOf(to)
	return at(tableRouter, priority, append([]openflow.FieldMatch{regOrigin.is(originEntered), f.is(), f.dst(inet.Host(to))}, more...)...)
}

// enterNodePort looks up packets to node ports that have no port, in the zone of a VRF.
func enterNodePort(vrf uint16) []openflow.Action {
	return []openflow.Action{regVRF.set(uint32(vrf)), regRouted.set(1),
		openflow.CT{Zone: vrf, Recirculate: true, Table: tableSource, Actions: []openflow.Action{openflow.NAT{}}}}
}

// enter sets VRF and network of a packet to those of the service.
func (o Service) enter() []openflow.Action {
	return []openflow.Action{regVRF.set(uint32(o.VRF)), regNetwork.set(uint32(o.Tag)), regRouted.set(1)}
}

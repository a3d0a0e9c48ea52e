package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// tracking applies the rules of tiers (tier.go) to connections, of endpoints with Tiers only.
//
// Rules of groups (policy.go) apply to packets. Tiers apply to the first packet of a connection: egress on the
// node of the sender, ingress on that of the receiver. Later packets, in both directions, pass by the
// connection tracker, in a zone for each VRF that is used for nothing else.
//
//	FORWARD    of a tracked endpoint, before anything else there -> TRACK
//	TRACK      ct(zone)                                          -> KNOWN
//	           packets that are exempt                           -> FORWARD
//	KNOWN      admitted in this epoch; an ICMP error about it    -> FORWARD
//	           TCP that is invalid for such a connection: SYN-ACK, after ct(commit,force) on a copy, in COUNTED;
//	           all without SYN                                   -> FORWARD
//	           an ICMP error about another; invalid packets; the
//	           copy of a flooded reply                           -> DROP
//	           a later fragment                                  -> ADMIT
//	           else: a reply, with its two ends exchanged        -> tiers
//	tiers      FIRST, POLICY and LAST of the sender, then of the receiver
//	ADMIT      ct(commit,zone), its mark is the epoch            -> ADMITTED
//	           clients that came in by the host: the same, of a copy -> FORWARD
//	ADMITTED   not a stray fragment (stray.go)                   -> FORWARD
//
// A packet goes back to FORWARD with its conntrack state cleared (ct_clear): it is like any
// other there, and services look it up in their own zone.
//
// Each change of rules changes the epoch. A connection that was admitted in another epoch is evaluated again
// with its next packet, in its original direction even if that packet is a reply. So rules match the original
// tuple of the connection tracker: addresses, protocol and port of the first packet.
//
// In the userspace datapath the tuple of later fragments has no port. They are admitted: without the first
// fragment, to which the rules apply, they are useless, and the tracker needs all fragments of a datagram on
// each pass. (Of SCTP it sees the first one once.) Such fragments of a bridged network must not reach the
// tracker: it would reassemble fragments for several receivers, as of copies, and so deliver a first fragment
// to a receiver whose rules deny it. They are dropped if tiers apply to sender or receiver.
//
// All copies of a flooded packet are one connection to the tracker, perhaps one with an endpoint whose address the
// packet has, and so is a packet at the MAC of another receiver (bridge.go). So each is evaluated, whatever the tracker knows, and
// committed to nothing: that would not only admit what follows, it would also say who began it. One with the addresses of a reply
// cannot be evaluated: with its ends exchanged it would be as if sent by its receiver, as it is, by the rules for the ports of the
// connection's first packet. It is dropped if tiers apply to sender or receiver. Nothing needs it: a reply has a receiver.
//
// Sender and receiver of a packet are classified in its first pass; each ct action begins another pass. The
// datapath has a flow for each pass, and ovs-vswitchd revalidates them one after the other when rules change,
// so an old first pass may be followed by a new last one. Therefore a packet carries the epoch of its first
// pass, and the connection is marked only if that is still the present epoch. Otherwise only the packet is
// evaluated, and the connection again with its next packet.
//
//	CLASSIFY   EPOCH writes the epoch into a register, for all passes
//	ADMIT      of this epoch: its mark; of another one: ct(commit) without one
//
// The tracker knows the initiator of a connection only if it has seen the first packet. So an endpoint that may get
// rules later is tracked from its start. While neither sender nor receiver has rules, packets that are invalid to
// the tracker pass, too. The initiator of an older connection is the sender of the first packet that the tracker
// sees.
//
// A server that remembers an ended connection with the same addresses and ports may answer a SYN with an ACK of that
// connection: a client that connects by a service and directly has two sequences of time stamps. The client answers with RST,
// the server forgets, and accepts the next SYN. To the userspace datapath's tracker that ACK belongs to the new connection,
// and so the RST and the SYN-ACK are invalid. The RST passes, and the SYN-ACK removes the entry: the ACK of the client makes
// another one, by the rules. A SYN-ACK cannot begin a connection, so the tracker makes no entry of it.
//
// No rule applies to packets of an endpoint to itself, to packets between an endpoint and the host it
// is on, and to neighbour discovery. Packets of the host itself are those from the address that only
// the host has on that link, where it accepts answers only (netplugin/hostaccess). ICMP errors from there
// pass, too, since they quote an address that the tracker does not know (quoted.go).
//
// Before 3.2 Open vSwitch's userspace datapath treats all SCTP packets between two addresses as one connection,
// so on every datapath each SCTP packet is evaluated like the first of a connection.
type tracking struct{}

// Tiers are the directions in which tiers apply to an endpoint.
type Tiers uint8

// Bits of Tiers, by direction of the connection. Where policies isolate an endpoint, only connections
// are admitted that one of their rules allows.
const (
	JudgesOut Tiers = 1 << iota
	IsolatesOut
	JudgesIn
	IsolatesIn
	Tracked // its connections are tracked; each other bit implies that
)

// EpochCycle is the number of epochs after which the number in the register repeats. The datapath's
// flows are revalidated long before.
const EpochCycle = 63

// short returns the number of the epoch in the register, never 0.
func (e Epoch) short() uint32 { return 1 + e.Number%EpochCycle }

// arrived records in registers where a packet came from, and in which epoch, before anything else.
func arrived(where uint32) []openflow.Action {
	return []openflow.Action{regOrigin.set(where), openflow.Resubmit{Table: tableEpoch}}
}

// judgement is the mask of the Tiers bits that are in registers.
const judgement = JudgesOut | IsolatesOut | JudgesIn | IsolatesIn

// Epoch distinguishes connections that were admitted by the present rules from earlier ones. A switch has one;
// without one every packet is evaluated.
type Epoch struct{ Number uint32 }

// zoneOf is the field with the number of the zone. Services have the zones with the numbers of their VRFs, 1 to
// MaxVRF; those of the tiers have bit 15 as well, and that of the shared VRF, which has all bits, is 32767.
var zoneOf = openflow.Subfield{Field: openflow.FieldReg(regScratch.Index), Bits: 16}

const tierZone = 1 << 15

// classed sets the registers with class and Tiers of sender or receiver.
func (e placed) classed(class, tiers Register) (actions []openflow.Action) {
	if e.Class != 0 {
		actions = append(actions, class.set(uint32(e.Class)))
	}
	if e.local() && e.Tiers != 0 {
		actions = append(actions, tiers.set(uint32(e.Tiers&judgement)), regTracked.set(1))
	}
	return actions
}

// unjudged continues a packet as if there were no tiers.
func (b flowBuilder) unjudged() openflow.Flow {
	return b.do(regTracked.set(0)).backTo(tableForward)
}

// admitted is unjudged for packets that have passed the connection tracker.
func (b flowBuilder) admitted() openflow.Flow { return b.do(openflow.CTClear{}).unjudged() }

func (t tracking) base(w *Wants) {
	nobody := both(regSrcTiers.is(0), regDstTiers.is(0))
	for _, f := range []family{ipv4(), ipv6()} {
		w.flow(at(tableForward, priorityTracked, regTracked.is(1), f.is()).goTo(tableTrack))
		for _, kind := range f.errors {
			w.flow(at(tableTrack, priorityGuard, regOrigin.is(originHost), f.is(), f.isICMP(), f.icmpType(kind)).unjudged())
		}
		w.flow(
			at(tableTrack, priorityExcept, regFlooded.is(1), f.is(), openflow.IPFragment()).drop(reasonNotAdmitted),
			at(tableTrack, priorityGuard, both(regFlooded.is(1), nobody), f.is(), openflow.IPFragment()).unjudged(),
			at(tableTrack, priorityOther, f.is()).do(askTracker()).end(),
			at(tableTrack, priorityExact, f.is(), regVRF.is(uint32(SharedVRF))).do(aside(openflow.LoadReg(regScratch.Index, 0, 16, tierZone-1), toKnown)).end(),
			at(tableKnown, priorityGuard, f.is(), trackedState(), openflow.CTNwProto(openflow.ProtoSCTP), openflow.IPLaterFragment()).admitted(),
			at(tableKnown, priorityService, f.is(), openflow.IPProto(openflow.ProtoSCTP)).goTo(tableFirstOut),
			at(tableAdmit, priorityGuard, f.is(), openflow.IPProto(openflow.ProtoSCTP)).admitted(),
			at(tableAdmit, priorityGuard, f.is(), regFlooded.is(1)).admitted(),
			at(tableKnown, priorityRefuse, f.is(), tracked(0), openflow.IPLaterFragment()).goTo(tableAdmit),
			at(tableAdmit, priorityOther, f.is()).do(admit()).end(),
			at(tableAdmit, priorityExcept, enteredWhole(f)...).do(admitAside()).admitted(),
			at(tableAdmitted, priorityOther, f.is()).admitted())
	}
	for _, odd := range []openflow.Match{{tracked(openflow.CTInv)}, {tracked(openflow.CTRel)}, {tracked(openflow.CTRpl), regFlooded.is(1)}} {
		w.flow(
			at(tableKnown, priorityExempt, append(odd, nobody)...).admitted(),
			at(tableKnown, priorityAnswer, odd...).drop(reasonNotAdmitted))
	}
	forgets := openflow.CT{Commit: true, Force: true, ZoneField: zoneOf}
	w.flow(
		at(tableCounted, priorityGuard, regReason.is(uint32(reasonNotAdmitted)), ipv4().is()).do(forgets).end(),
		at(tableCounted, priorityGuard, regReason.is(uint32(reasonNotAdmitted)), ipv6().is()).do(forgets).end(),
		at(tableKnown, priorityExact, tracked(openflow.CTRpl)).
			do(turnedEnds()...).goTo(tableFirstOut),
		at(tableKnown, priorityOther, tracked(0)).goTo(tableFirstOut))
}

// toKnown is the ct action in the zone of zoneOf.
var toKnown = openflow.CT{ZoneField: zoneOf, Recirculate: true, Table: tableKnown}

// askTracker returns the ct action in the zone of the packet's VRF.
func askTracker() openflow.Action {
	return aside(
		openflow.Move{Src: openflow.FieldReg(regVRF.Index), SrcOfs: regVRF.Ofs, Dst: zoneOf.Field, Bits: regVRF.Bits},
		openflow.LoadReg(regScratch.Index, 15, 1, 1), toKnown)
}

// tracked matches packets that have passed the tracker with a certain flag.
func tracked(flag uint32) openflow.FieldMatch {
	return openflow.CTState(openflow.CTTrk|flag, openflow.CTTrk|flag)
}

// network has the flows that let neighbour discovery between endpoints of a bridged network pass. In routed networks the switch
// answers it, and rules apply to such messages like to others.
func (t tracking) network(w *Wants, n Network) {
	if !n.Mode.Bridged() {
		return
	}
	for _, kind := range ndTypes {
		w.flow(at(tableTrack, priorityGuard, icmpv6(kind, regNetwork.is(uint32(n.Tag)), openflow.IPTTL(onLink(kind)))...).unjudged())
	}
}

// ndTypes are the ICMPv6 types of neighbour discovery and of multicast listener discovery.
var ndTypes = []uint8{130, 131, 132, 133, 134, 135, 136, 137, 143}

// turnedEnds exchanges the registers of sender and receiver, for an answer.
func turnedEnds() []openflow.Action {
	return append(turned(regSrcClass, regDstClass), turned(regSrcTiers, regDstTiers)...)
}

// turned exchanges two registers.
func turned(a, b Register) []openflow.Action {
	part := func(r Register) openflow.Subfield {
		return openflow.Subfield{Field: openflow.FieldReg(r.Index), Ofs: r.Ofs, Bits: r.Bits}
	}
	spare := openflow.Subfield{Field: openflow.FieldReg(regScratch.Index + 1), Bits: a.Bits}
	move := func(from, to openflow.Subfield) openflow.Action {
		return openflow.Move{Src: from.Field, SrcOfs: from.Ofs, Dst: to.Field, DstOfs: to.Ofs, Bits: from.Bits}
	}
	return []openflow.Action{move(part(a), spare), move(part(b), part(a)), move(spare, part(b))}
}

// endpoint has the flows that except packets of an endpoint to itself, and those between it and the host.
func (tracking) endpoint(w *Wants, e placed) {
	switch {
	case !e.local():
	case e.Host:
		w.flow(
			at(tableTrack, priorityGuard, openflow.InPort(e.port)).unjudged(),
			at(tableTrack, priorityGuard, regOut.is(e.port)).unjudged())
	case e.Tiers != 0:
		w.flow(at(tableTrack, priorityGuard, openflow.InPort(e.port), regOut.is(e.port)).unjudged())
	}
}

// outside has the flows that except the host itself, by the address that it has on that link. Packets to that
// address pass the tracker, though no rule applies: if a host reaches an endpoint of another node by
// a service, rules apply there, and such packets are the answers.
func (tracking) outside(w *Wants, o Outside, port uint32) {
	for _, p := range o.Prefixes() {
		f, host := familyOf(p.Addr()), inet.Host(OutsideAddress(p, OutsideHost))
		w.flow(
			at(tableTrack, priorityGuard, openflow.InPort(port), f.is(), f.src(host)).unjudged(),
			at(tableKnown, priorityGuard, f.is(), f.dst(host)).admitted())
	}
}

func (tracking) epoch(w *Wants, e Epoch) {
	mark := openflow.CTMark(e.Number, ^uint32(0))
	const accepts = openflow.TCPSyn | openflow.TCPAck
	forget := visitAside(tableCounted, regReason.set(uint32(reasonNotAdmitted)))
	w.flow(at(tableEpoch, priorityExact).do(regEpoch.set(e.short())).end())
	for _, f := range []family{ipv4(), ipv6()} {
		invalid := func(flags openflow.FieldMatch) flowBuilder {
			return at(tableKnown, priorityExcept, f.is(), openflow.IPProto(openflow.ProtoTCP), tracked(openflow.CTInv), mark, regFlooded.is(0), flags)
		}
		w.flow(
			invalid(openflow.TCPFlags(0, openflow.TCPSyn)).admitted(),
			invalid(openflow.TCPFlags(accepts, accepts)).do(forget).admitted(),
			at(tableKnown, priorityExcept, f.is(), tracked(openflow.CTRel), mark, regFlooded.is(0)).admitted(),
			at(tableKnown, priorityHost, f.is(), tracked(openflow.CTEst), mark, regFlooded.is(0)).admitted(),
			at(tableAdmit, priorityExact, f.is(), regEpoch.is(e.short())).do(admit(set(mark))).end(),
			at(tableAdmit, priorityVisit, append(enteredWhole(f), regEpoch.is(e.short()))...).do(admitAside(set(mark))).admitted())
	}
}

// admit returns ct(commit) of a connection, after which the packet continues.
func admit(more ...openflow.Action) openflow.CT {
	return openflow.CT{Commit: true, ZoneField: zoneOf, Recirculate: true, Table: tableAdmitted, Actions: more}
}

// enteredWhole matches unfragmented packets that begin a connection by a service and came in by the host. The
// userspace datapath drops a packet that recirculates a seventh time. Such a packet of an endpoint of another
// tenant (visit.go) has recirculated six times by now: looked up and admitted in the zone of that tenant;
// looked up, given a provider by a group and committed in that of the service; and looked up here.
// Of a slowed endpoint (slowed.go) it has recirculated for a hash before all that, which the group uses.
func enteredWhole(f family) openflow.Match {
	return openflow.Match{f.is(), regOrigin.is(originEntered), openflow.IPWhole()}
}

// admitAside is admit on a copy, so that the packet itself does not recirculate once more. The copy is dropped
// when it comes back, with stray fragments that come with it. It must not be used for fragments: they would
// continue before it is known whether the first one is admitted.
func admitAside(more ...openflow.Action) openflow.Action {
	ct := admit(more...)
	ct.Recirculate, ct.Table = false, 0
	return aside(ct)
}

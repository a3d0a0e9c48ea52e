package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// tracking has tiers of rules judge connections: those of the endpoints that have Tiers,
// and of nobody else. The rules are in tier.go.
//
// Rules of groups (policy.go) judge packets. Tiers judge the first packet of a
// connection: what the sender may begin, on its node, and what the receiver accepts,
// on its own. What follows, in both directions, passes by the connection tracker, in a
// zone for each VRF that nobody else uses.
//
//	FORWARD    of a tracked endpoint, before anything else there -> TRACK
//	TRACK      ct(zone)                                          -> KNOWN
//	           what nobody may judge                             -> FORWARD
//	KNOWN      admitted in this epoch; an ICMP error about it    -> FORWARD
//	           an ICMP error about another; what is invalid      -> DROP
//	           a later fragment                                  -> ADMIT
//	           else: an answer is turned round                   -> tiers
//	tiers      FIRST, POLICY and LAST of the sender, then of the receiver
//	ADMIT      ct(commit,zone), its mark is the epoch            -> ADMITTED
//	           who came in by the host: the same, of a copy      -> FORWARD
//	ADMITTED   not a stray fragment (stray.go)                   -> FORWARD
//
// A packet that goes back to FORWARD has forgotten that it was tracked. It is as any
// other there, and what services have to look up later they look up in their own zone.
//
// Whatever the rules say changes the epoch. A connection that was admitted in another
// epoch is judged anew with its next packet, as a whole: an answer as the connection
// that it belongs to. So rules compare with what the connection tracker knows of the
// connection's first packet: its addresses, protocol and port. Of later fragments the
// userspace datapath does not know the port; they are of no use without the first one, which
// is judged, and go with it, as the tracker wants to see all of them each time. (The first one
// of SCTP it sees once.) Fragments that a bridged network floods must not reach the tracker. It
// would put fragments of the copies for several receivers together, and so deliver a first
// fragment to a receiver whose rules deny it. Where sender or receiver are judged, they are dropped.
//
// A packet's ends are classified in its first pass, and the tracker ends a pass. The datapath
// has a flow for each pass, and ovs-vswitchd looks at them one after the other when rules
// change, so an old first pass may be followed by a new last one. Therefore a packet keeps
// the epoch of its first pass, and a connection is marked in that epoch only. In another one
// the packet is judged, but the connection is judged again with its next packet.
//
//	CLASSIFY   EPOCH writes the epoch into a register, for all passes
//	ADMIT      of this epoch: its mark; of another one: ct(commit) without one
//
// Who began a connection is known of those that began after the tracker has seen one of
// their ends. So an endpoint that may be judged one day is tracked from its start, and as
// long as nothing of either end is judged, what the tracker takes for invalid passes, too.
// A connection that is older than that counts as begun by whoever speaks first.
//
// Nobody judges what an endpoint sends to itself, what it exchanges with the host it
// is on, and neighbour discovery. Of what comes in by the host, that is what the host
// itself sends, by the address that only it has on that link, where it takes nothing but
// answers (netplugin/hostaccess); ICMP errors pass, too, as they quote an address that the
// tracker does not know (quoted.go).
//
// Before 3.2 Open vSwitch's userspace datapath takes all of SCTP between two addresses
// for one connection, so SCTP is judged packet by packet on every datapath, each as the
// first of one.
type tracking struct{}

// Tiers are what they judge of an endpoint.
type Tiers uint8

// What is judged of an endpoint, by direction of the connection. Where policies isolate
// it, only what a rule of theirs allows is admitted.
const (
	JudgesOut Tiers = 1 << iota
	IsolatesOut
	JudgesIn
	IsolatesIn
	Tracked // its connections are known to the tracker; so are those of whom anything is judged
)

// EpochCycle is after how many epochs one has the number of another in the register. The datapath's
// flows are looked at again long before.
const EpochCycle = 63

// short is the epoch in the register, never 0.
func (e Epoch) short() uint32 { return 1 + e.Number%EpochCycle }

// arrived writes down where a packet came from, and in which epoch, before anything else.
func arrived(where uint32) []openflow.Action {
	return []openflow.Action{regOrigin.set(where), openflow.Resubmit{Table: tableEpoch}}
}

// judgement is what the registers have of it.
const judgement = JudgesOut | IsolatesOut | JudgesIn | IsolatesIn

// Epoch tells connections that were admitted by the present rules from those that were
// admitted before. There is one in a switch; without one every packet is judged.
type Epoch struct{ Number uint32 }

// zoneOf is where the number of the zone is kept. Services have the zones with the numbers
// of their VRFs, 1 to MaxVRF; those of the tiers have bit 15 as well, and that of the
// shared VRF, which has all bits, is 32767.
var zoneOf = openflow.Subfield{Field: openflow.FieldReg(regScratch.Index), Bits: 16}

const tierZone = 1 << 15

// classed writes down how tiers see an end of a connection.
func (e placed) classed(class, tiers Register) (actions []openflow.Action) {
	if e.Class != 0 {
		actions = append(actions, class.set(uint32(e.Class)))
	}
	if e.local() && e.Tiers != 0 {
		actions = append(actions, tiers.set(uint32(e.Tiers&judgement)), regTracked.set(1))
	}
	return actions
}

// unjudged lets a packet go on as if there were no tiers.
func (b flowBuilder) unjudged() openflow.Flow {
	return b.do(regTracked.set(0)).backTo(tableForward)
}

// admitted is unjudged for what the connection tracker has seen.
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
			at(tableKnown, priorityRefuse, f.is(), tracked(0), openflow.IPLaterFragment()).goTo(tableAdmit),
			at(tableAdmit, priorityOther, f.is()).do(admit()).end(),
			at(tableAdmit, priorityExcept, enteredWhole(f)...).do(admitAside()).admitted(),
			at(tableAdmitted, priorityOther, f.is()).admitted())
	}
	for _, odd := range []openflow.FieldMatch{tracked(openflow.CTInv), tracked(openflow.CTRel)} {
		w.flow(
			at(tableKnown, priorityExempt, nobody, odd).admitted(),
			at(tableKnown, priorityAnswer, odd).drop(reasonNotAdmitted))
	}
	w.flow(
		at(tableKnown, priorityExact, tracked(openflow.CTRpl)).
			do(turnedEnds()...).goTo(tableFirstOut),
		at(tableKnown, priorityOther, tracked(0)).goTo(tableFirstOut))
}

// toKnown asks the connection tracker, in the zone that is written down.
var toKnown = openflow.CT{ZoneField: zoneOf, Recirculate: true, Table: tableKnown}

// askTracker asks it in the zone of the packet's VRF.
func askTracker() openflow.Action {
	return aside(
		openflow.Move{Src: openflow.FieldReg(regVRF.Index), SrcOfs: regVRF.Ofs, Dst: zoneOf.Field, Bits: regVRF.Bits},
		openflow.LoadReg(regScratch.Index, 15, 1, 1), toKnown)
}

// tracked matches what the tracker has seen, and found to be so.
func tracked(flag uint32) openflow.FieldMatch {
	return openflow.CTState(openflow.CTTrk|flag, openflow.CTTrk|flag)
}

// network has what the endpoints of a bridged network tell their neighbours pass, which no router passes on. In others the switch
// answers it, and a message of such a type is as good as any other.
func (t tracking) network(w *Wants, n Network) {
	if !n.Mode.Bridged() {
		return
	}
	for _, kind := range ndTypes {
		w.flow(at(tableTrack, priorityGuard, icmpv6(kind, regNetwork.is(uint32(n.Tag)), openflow.IPTTL(onLink(kind)))...).unjudged())
	}
}

// ndTypes are the types of neighbour discovery, and of those who listen to multicast.
var ndTypes = []uint8{130, 131, 132, 133, 134, 135, 136, 137, 143}

// turnedEnds has the ends of a connection change places, for an answer.
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

// endpoint's flows except what it sends to itself, and what it exchanges with the host.
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

// outside's flows except the host itself, by the address that it has on that link. The
// tracker sees what is for that address, though nobody judges it: a host that reaches
// an endpoint of another node by a service is judged there, and this is the answer.
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
	w.flow(at(tableEpoch, priorityExact).do(regEpoch.set(e.short())).end())
	for _, f := range []family{ipv4(), ipv6()} {
		w.flow(
			at(tableKnown, priorityExcept, f.is(), tracked(openflow.CTRel), mark).admitted(),
			at(tableKnown, priorityHost, f.is(), tracked(openflow.CTEst), mark).admitted(),
			at(tableAdmit, priorityExact, f.is(), regEpoch.is(e.short())).
				do(admit(set(mark))).end(),
			at(tableAdmit, priorityVisit, append(enteredWhole(f), regEpoch.is(e.short()))...).do(admitAside(set(mark))).admitted())
	}
}

// admit gives the tracker a connection, and takes the packet back from it.
func admit(more ...openflow.Action) openflow.CT {
	return openflow.CT{Commit: true, ZoneField: zoneOf, Recirculate: true, Table: tableAdmitted, Actions: more}
}

// enteredWhole matches what begins a connection by a service as if the host had sent it, and is no fragment. Of an
// endpoint of another tenant (visit.go) it has been sent round five times by now: asked about and admitted in that
// one's zone, asked about, given a provider by a group and taken in, in that of the service; and a sixth time it has
// been asked about here. The userspace datapath drops what goes round a seventh time.
func enteredWhole(f family) openflow.Match {
	return openflow.Match{f.is(), regOrigin.is(originEntered), openflow.IPWhole()}
}

// admitAside gives the tracker a copy, so that the packet is not sent round once more. It may: a copy that
// the tracker gives back is the end of it, and so are stray fragments that come with it. Of a fragment the tracker must have the
// packet itself, or it would go on before it is known whether the first one is admitted.
func admitAside(more ...openflow.Action) openflow.Action {
	ct := admit(more...)
	ct.Recirculate, ct.Table = false, 0
	return aside(ct)
}

package pipeline

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// tiers are the policy rules for connections; track.go decides when they are applied.
//
// A rule applies to connections of one of its subjects with one of its peers, to one of its ports. Subjects and
// peers are classes, which are sets of endpoints that no rule distinguishes; peers may be addresses as well.
// Like a group, a class is in a register, so the flows of a rule do not depend on the number of endpoints, and
// an endpoint that is added, removed or changes its class changes its own flows only.
//
// A named port has different numbers in different classes. So a rule with named ports and addresses is for
// receivers of certain classes only (Serving).
//
// Each of these is a dimension of a conjunction (ovs-fields(7)): a flow for each class, prefix and masked range
// of ports, and one for the conjunction, whose id is the number of the rule. A rule of one dimension needs no
// conjunction. Rules may share a dimension: the driver unites their flows (Merge).
//
// In the first tier and in the last one the first rule that matches decides. In the tier of policies all rules
// allow, so their order does not matter and they share a priority.
type tiers struct{}

// TierRule is a rule of a tier.
type TierRule struct {
	ID       string
	Tier     Tier
	Out      bool // egress: connections that subjects begin; else ingress
	Rank     uint16
	Verdict  Verdict
	Number   uint32 // of its conjunction, which no other rule has
	Subjects []uint16
	AnyPeer  bool
	AnyPod   bool           // peers are those of any class: each class has a bit that is set, so a flow for each bit matches them
	Peers    []uint16       // classes, ascending; unused with AnyPeer or AnyPod
	Nets     []netip.Prefix // peers by address, endpoints or not; masked
	Begun    []netip.Prefix // likewise, for connections that have been answered only: no new one may begin; masked
	Serving  []uint16       // classes of the receiver, if that is no subject and a peer by address; nil: any
	Ports    []PortRange    // nil: any, of any protocol
}

// PortRange is some ports of a protocol, at the receiver of a connection.
type PortRange struct {
	Protocol    uint8 // TCP, UDP or SCTP
	First, Last uint16
}

// Tier is a tier of rules. They are applied in this order.
type Tier uint8

// Tiers.
const (
	FirstTier  Tier = iota // of cluster administrators
	PolicyTier             // of policies, which isolate
	LastTier               // of cluster administrators, for endpoints that no policy isolates
)

// drops are the reasons of what tiers deny.
var drops = [...]Reason{FirstTier: reasonFirstTier, PolicyTier: reasonPolicyTier, LastTier: reasonLastTier}

// Verdict is the action of a rule.
type Verdict uint8

// Verdicts.
const (
	Accept Verdict = iota
	Deny
	Pass // ask the next tier
)

// priorityRank is the priority of rules of rank 0; MaxRank is the last.
const (
	priorityRank uint16 = 60000
	MaxRank             = priorityRank - 1000
)

// Key identifies the rule.
func (r TierRule) Key() Key { return Key{KindTierRule, r.ID} }

// Equal compares all fields, the lists in their order.
func (r TierRule) Equal(other Object) bool {
	o, ok := other.(TierRule)
	return ok && r.ID == o.ID && r.Tier == o.Tier && r.Out == o.Out && r.Rank == o.Rank && r.Verdict == o.Verdict && r.Number == o.Number &&
		slices.Equal(r.Subjects, o.Subjects) && r.AnyPeer == o.AnyPeer && r.AnyPod == o.AnyPod && slices.Equal(r.Peers, o.Peers) &&
		slices.Equal(r.Nets, o.Nets) && slices.Equal(r.Begun, o.Begun) && slices.Equal(r.Serving, o.Serving) && slices.Equal(r.Ports, o.Ports) && (r.Ports == nil) == (o.Ports == nil)
}

// Key identifies the epoch.
func (e Epoch) Key() Key { return Key{KindEpoch, "tiers"} }

// Equal compares all fields.
func (e Epoch) Equal(other Object) bool { return other == Object(e) }

// side is what differs between the directions of rules.
type side struct {
	tables        [3]uint8 // by tier
	after         uint8    // the table behind them
	subject, peer Register
	tiers         Register // of the subject
	judges        Tiers
	isolates      Tiers
	peerNet       func(netip.Prefix) openflow.FieldMatch
}

var sides = map[bool]side{
	true: {[3]uint8{tableFirstOut, tablePolicyOut, tableLastOut}, tableFirstIn, regSrcClass, regDstClass,
		regSrcTiers, JudgesOut, IsolatesOut, openflow.CTNwDst},
	false: {[3]uint8{tableFirstIn, tablePolicyIn, tableLastIn}, tableAdmit, regDstClass, regSrcClass,
		regDstTiers, JudgesIn, IsolatesIn, openflow.CTNwSrc},
}

// base has the flows that admit connections of endpoints without tiers in a direction, and drop what no rule of an
// isolating tier allows.
func (tiers) base(w *Wants) {
	for _, s := range []side{sides[true], sides[false]} {
		w.flow(
			at(s.tables[FirstTier], priorityNobody, s.tiers.has(0, s.judges)).goTo(s.after),
			at(s.tables[PolicyTier], priorityOther, s.tiers.has(s.isolates, s.isolates)).drop(reasonPolicyTier))
	}
}

// outside has the flows that let isolated endpoints reach their own node, as a rule of the policy tier; the
// other tiers apply as usual. A tenant may have an endpoint with an address of the node: so only packets
// without a receiver in the tenant are for the node, and only packets from the host's port are its replies.
// Host ports and node ports that are forwarded elsewhere are not the node.
//
// No tier applies to packets of the node itself to its endpoints, also with an address of the node as source,
// as by a node port: the node forwards nothing from elsewhere with a source of its own (package hostaccess).
// After a change of policies, replies on a connection that such a packet has begun are evaluated again; they
// pass as long as their destination is no endpoint of the tenant.
func (tiers) outside(w *Wants, o Outside, port uint32) {
	s, in := sides[true], sides[false]
	isolated := s.tiers.has(s.isolates, s.isolates)
	for _, a := range o.Own {
		begun := openflow.Match{familyOf(a).is(), in.peerNet(inet.Host(a))}
		w.flow(
			at(in.tables[FirstTier], priorityNobody, append(slices.Clone(begun), trackedState(), openflow.InPort(port))...).goTo(in.after),
			at(in.tables[FirstTier], priorityNobody, append(begun, answering(), regOrigin.is(originLocal), regOut.is(0))...).goTo(in.after))
		own := openflow.Match{familyOf(a).is(), trackedState(), s.peerNet(inet.Host(a))}
		w.flow(
			at(s.tables[PolicyTier], priorityExempt, append(slices.Clone(own), isolated, regOrigin.is(originLocal), regOut.is(0))...).goTo(s.after),
			at(s.tables[PolicyTier], priorityExempt, append(own, isolated, regOrigin.is(originHost))...).goTo(s.after))
	}
	for _, p := range o.Led {
		for _, f := range []family{ipv4(), ipv6()} {
			for _, m := range p.matches(f) {
				w.flow(at(s.tables[PolicyTier], priorityGuard, append(m, isolated)...).drop(reasonPolicyTier))
			}
		}
	}
}

// priorityNobody is above that of all rules.
const priorityNobody uint16 = 65000

// has matches some of the bits of a register.
func (r Register) has(v, mask Tiers) openflow.FieldMatch {
	return openflow.Reg(r.Index, uint32(v)<<r.Ofs, uint32(mask)<<r.Ofs)
}

func (tiers) tierRule(w *Wants, r TierRule) {
	dimensions := r.dimensions()
	if slices.ContainsFunc(dimensions, func(d []openflow.Match) bool { return len(d) == 0 }) {
		return // without subjects or peers
	}
	if len(dimensions) == 1 {
		for _, m := range dimensions[0] {
			w.flow(r.decides(r.priority()+r.alone(), m...))
		}
		return
	}
	for i, d := range dimensions {
		clause := openflow.Conjunction{ID: r.Number, Clause: uint8(i + 1), Clauses: uint8(len(dimensions))}
		for _, m := range d {
			w.flow(at(r.side().tables[r.Tier], r.priority(), m...).do(clause).end())
		}
	}
	for _, f := range []family{ipv4(), ipv6()} {
		w.flow(r.decides(r.priority(), f.is(), openflow.ConjID(r.Number)))
	}
}

// dimensions returns the dimensions of a rule, each with its alternatives.
func (r TierRule) dimensions() [][]openflow.Match {
	s := r.side()
	all := [][]openflow.Match{ofClasses(s.subject, r.Subjects)}
	if !r.AnyPeer {
		peers := ofClasses(s.peer, r.Peers)
		if r.AnyPod {
			peers = ofAnyClass(s.peer)
		}
		for _, p := range r.Nets {
			f := familyOf(p.Addr())
			m := openflow.Match{f.is()}
			if p.Bits() > 0 {
				m = append(m, trackedState(), s.peerNet(p))
			}
			peers = append(peers, m)
		}
		for _, p := range r.Begun {
			peers = append(peers, openflow.Match{familyOf(p.Addr()).is(), answeredState(), s.peerNet(p)})
		}
		all = append(all, peers)
	}
	if r.Serving != nil {
		all = append(all, ofClasses(regDstClass, r.Serving))
	}
	if r.Ports != nil {
		var ports []openflow.Match
		for _, p := range r.Ports {
			for _, f := range []family{ipv4(), ipv6()} {
				ports = append(ports, p.matches(f)...)
			}
		}
		all = append(all, ports)
	}
	return all
}

func ofClasses(in Register, numbers []uint16) (all []openflow.Match) {
	for _, n := range numbers {
		all = append(all, openflow.Match{in.is(uint32(n))})
	}
	return all
}

// ofAnyClass matches all classes but 0. OpenFlow cannot match "not 0", so there is a match for each
// bit; flows of a dimension may overlap.
func ofAnyClass(in Register) (all []openflow.Match) {
	for bit := range in.Bits {
		one := uint32(1) << (in.Ofs + bit)
		all = append(all, openflow.Match{openflow.Reg(in.Index, one, one)})
	}
	return all
}

// trackedState returns the prerequisite of matches on the original direction's tuple.
func trackedState() openflow.FieldMatch {
	return openflow.CTState(openflow.CTTrk, openflow.CTTrk|openflow.CTInv)
}

// answeredState matches connections whose receiver has answered: they were admitted once.
func answeredState() openflow.FieldMatch {
	state := openflow.CTTrk | openflow.CTEst
	return openflow.CTState(state, state|openflow.CTInv)
}

func (r TierRule) side() side { return sides[r.Out] }

func (r TierRule) priority() uint16 { return priorityRank - r.Rank }

// alone returns how far a rule of one dimension is above other rules of its rank. Policies share a rank, and a rule's
// only match may be a clause of another rule's conjunction: at one priority a switch can have only one of the two
// flows.
func (r TierRule) alone() uint16 {
	if r.Tier == PolicyTier {
		return 1
	}
	return 0
}

// decides returns a flow with the rule's action.
func (r TierRule) decides(priority uint16, m ...openflow.FieldMatch) openflow.Flow {
	s := r.side()
	flow := at(s.tables[r.Tier], priority, m...)
	switch {
	case r.Verdict == Deny:
		return flow.drop(drops[r.Tier])
	case r.Verdict == Pass && r.Tier != LastTier:
		return flow.goTo(s.tables[r.Tier+1])
	}
	return flow.goTo(s.after)
}

// matches returns the matches of connections of a family to the ports. Those of SCTP are in the packet.
func (p PortRange) matches(f family) (all []openflow.Match) {
	for _, run := range masked(p.First, p.Last) {
		port := openflow.Value{Lo: uint64(run.value)}
		mask := openflow.Value{Lo: uint64(run.mask)}
		m := openflow.Match{f.is(), trackedState(), openflow.CTNwProto(p.Protocol), openflow.Masked(openflow.FieldCTTpDst, port, mask)}
		if p.Protocol == openflow.ProtoSCTP {
			m = openflow.Match{f.is(), openflow.IPProto(p.Protocol), openflow.Masked(openflow.FieldSCTPDst, port, mask)}
		}
		if run.mask == 0 {
			m = m[:len(m)-1]
		}
		all = append(all, m)
	}
	return all
}

// run is a masked port: those ports that have the value in the bits of the mask.
type run struct{ value, mask uint16 }

// masked returns the fewest runs that make a range: at most 30.
func masked(first, last uint16) (runs []run) {
	for at := uint32(first); at <= uint32(last); {
		size := uint32(1) << 16
		for at%size != 0 || at+size-1 > uint32(last) {
			size /= 2
		}
		runs = append(runs, run{uint16(at), ^uint16(size - 1)})
		at += size
	}
	return runs
}

// Judges reports whether policies may be applied wrongly while the switch refuses to change a flow of a table:
// always in the tables of rules; in those that classify endpoints, if there is another flow in its place.
func Judges(table uint8, there bool) bool {
	switch table {
	case tableClassify, tableSource, tableDest, tablePeer, tableTrack, tableKnown, tableAdmit:
		return there
	}
	return table >= tableFirstOut && table <= tableLastIn
}

func checkTierRule(r TierRule) error {
	switch {
	case r.Tier > LastTier || r.Verdict > Pass:
		return fault.New(fault.Invalid, "tier rule %s: tier %d and verdict %d are unknown", r.ID, r.Tier, r.Verdict)
	case r.Tier == PolicyTier && (r.Verdict != Accept || r.Rank != 0):
		return fault.New(fault.Invalid, "tier rule %s: policies only accept, in no order", r.ID)
	case r.Rank > MaxRank:
		return fault.New(fault.Exhausted, "tier rule %s: rank %d is not in 0..%d", r.ID, r.Rank, MaxRank)
	case slices.Contains(r.Subjects, 0) || slices.Contains(r.Peers, 0) || slices.Contains(r.Serving, 0):
		return fault.New(fault.Invalid, "tier rule %s: class 0 is nobody's", r.ID)
	case r.Serving != nil && (!r.Out || r.AnyPod || len(r.Peers) > 0): // a packet meets only one of two flows for its receiver's class
		return fault.New(fault.Invalid, "tier rule %s: it is for receivers of certain classes, of which subjects or peers are, too", r.ID)
	}
	for _, p := range r.Ports {
		if !slices.Contains([]uint8{openflow.ProtoTCP, openflow.ProtoUDP, openflow.ProtoSCTP}, p.Protocol) || p.First > p.Last {
			return fault.New(fault.Invalid, "tier rule %s: ports %d to %d of protocol %d", r.ID, p.First, p.Last, p.Protocol)
		}
	}
	for _, n := range slices.Concat(r.Nets, r.Begun) {
		if !n.IsValid() || n != n.Masked() || n.Addr().Is4In6() {
			return fault.New(fault.Invalid, "tier rule %s: %s is not a network", r.ID, n)
		}
	}
	return nil
}

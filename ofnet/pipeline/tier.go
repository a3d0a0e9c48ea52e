package pipeline

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// tiers are the rules by which connections are judged; track.go tells when.
//
// A rule says: connections of one of its subjects with one of its peers, to one of its
// ports. Subjects and peers are classes, which are sets of endpoints that no rule tells
// apart; peers may be addresses as well. A class is in a register like a group, so what a
// rule costs does not depend on how many endpoints there are, and an endpoint that
// comes, goes or changes its class changes its own flows only.
//
// Ports that peers call by a name have other numbers in other classes: what such a rule says of
// addresses holds for receivers of some classes only.
//
// Each of these is a dimension of a conjunction (ovs-fields(7)): a flow for each class, prefix
// and run of ports, and one for all of them together, which the number of the rule
// names. A rule of one dimension needs no conjunction. One dimension may be that of many rules:
// the driver unites their flows (Merge).
//
// In the first tier and in the last one the rules are asked in their order. In the tier
// of policies all of them allow, so the order does not matter and they share a priority.
type tiers struct{}

// TierRule is a rule of a tier.
type TierRule struct {
	ID       string
	Tier     Tier
	Out      bool // about what subjects send; else about what they receive
	Rank     uint16
	Verdict  Verdict
	Number   uint32 // of its conjunction, which no other rule has
	Subjects []uint16
	AnyPeer  bool
	AnyPod   bool           // peers are those of any class: each class has a bit that is set, so a flow for each bit finds them
	Peers    []uint16       // classes, ascending; of no meaning with AnyPeer or AnyPod
	Nets     []netip.Prefix // peers, too, whoever has the addresses; masked
	Begun    []netip.Prefix // peers, too, of connections that have been answered: these go on, and none begins; masked
	Serving  []uint16       // classes: the receiver is of one of them, too; nil: whoever it is
	Ports    []PortRange    // nil: any, of any protocol
}

// PortRange is some ports of a protocol, at the receiver of a connection.
type PortRange struct {
	Protocol    uint8 // TCP, UDP or SCTP
	First, Last uint16
}

// Tier is one of those that judge, in this order.
type Tier uint8

// Tiers.
const (
	FirstTier  Tier = iota // of the cluster's owner
	PolicyTier             // of policies that isolate
	LastTier               // of the cluster's owner, for what policies say nothing about
)

// drops are the reasons of what tiers deny.
var drops = [...]Reason{FirstTier: reasonFirstTier, PolicyTier: reasonPolicyTier, LastTier: reasonLastTier}

// Verdict is what a rule says of a connection, in its direction.
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

// base lets those pass who are not judged in a direction, and drops what isolates.
func (tiers) base(w *Wants) {
	for _, s := range []side{sides[true], sides[false]} {
		w.flow(
			at(s.tables[FirstTier], priorityNobody, s.tiers.has(0, s.judges)).goTo(s.after),
			at(s.tables[PolicyTier], priorityOther, s.tiers.has(s.isolates, s.isolates)).drop(reasonPolicyTier))
	}
}

// outside's flows let isolated endpoints reach their own node. That is what policies allow, so the other tiers
// are asked as ever. A tenant may have an endpoint with an address of the node: only what has no receiver in the tenant is
// for the node, and only what comes from the host is an answer of it. A port by which the node leads to somebody else is
// not the node.
//
// Nothing judges what the node itself sends to its endpoints, also if it comes with an address of the node, as to a node port:
// the node forwards nothing from elsewhere with a source of its own (package hostaccess). Of a connection that such a packet has
// begun, what the endpoint answers is judged again after a change of policies, and passes, too, as long as it is for nobody in the tenant.
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
		return // it is about nobody
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

// dimensions are the alternatives of each thing that a rule asks for.
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

// ofAnyClass matches all classes but 0. OpenFlow cannot ask for what is not 0; parts of a conjunction may overlap.
func ofAnyClass(in Register) (all []openflow.Match) {
	for bit := range in.Bits {
		one := uint32(1) << (in.Ofs + bit)
		all = append(all, openflow.Match{openflow.Reg(in.Index, one, one)})
	}
	return all
}

// trackedState is what matches of a connection's first packet need beside them.
func trackedState() openflow.FieldMatch {
	return openflow.CTState(openflow.CTTrk, openflow.CTTrk|openflow.CTInv)
}

// answeredState is that of connections whose receiver has answered: they were admitted once.
func answeredState() openflow.FieldMatch {
	state := openflow.CTTrk | openflow.CTEst
	return openflow.CTState(state, state|openflow.CTInv)
}

func (r TierRule) side() side { return sides[r.Out] }

func (r TierRule) priority() uint16 { return priorityRank - r.Rank }

// alone is how far above other rules of its rank one of a single dimension is. Policies share
// a rank: where another of them has its subject as a clause, a switch can have only one
// of the two flows at one priority.
func (r TierRule) alone() uint16 {
	if r.Tier == PolicyTier {
		return 1
	}
	return 0
}

// decides is a flow that does what the rule says.
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

// matches are the ports of connections of a family. Those of SCTP are in the packet.
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

// run is some ports that one match finds: those with the value where the mask is.
type run struct{ value, mask uint16 }

// masked are the fewest runs that make a range: at most 30.
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

// Judges tells whether connections may be judged wrongly while the switch refuses to change a flow of a table: always
// where rules are, and where it is found out about whom they are, if there is another flow in the place.
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

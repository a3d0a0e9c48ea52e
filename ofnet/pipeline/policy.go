package pipeline

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// policy applies the rules.
//
// A rule becomes one flow per IP family to which it applies. A rule with an IPv4 address applies to IPv4, one
// with an IPv6 address to IPv6, one with a prefix of each, or without addresses, to both; its protocol 1, ICMP,
// is protocol 58 in IPv6. Rules are applied to a packet between two endpoints where it is sent and again where
// it is received, also inside one group and inside one network.
//
// Group ids are unique in the cluster, so a rule with a group needs no VRF. A rule without groups applies to every
// tenant.
//
// The rule of higher priority wins, and of two of equal priority that match a packet, the one that denies:
// every priority of a rule has two of the switch. Packets that no rule matches fall to the table's miss:
// allowed. If two rules of equal priority do the same to the same packets, the switch has room for one flow
// only. A driver with several flows of one MatchKey calls Preferred, and so gets the same result in any order.
//
// The number of flows does not depend on how many endpoints are in a group, as the group is in a register, nor
// on how many addresses are in a network.
//
// Fragments depend on the first one, to which rules apply as to any packet. A later one has neither ports nor
// flags, in IPv6 not even a protocol; it passes if a rule allows packets that equal it apart from these. If its
// first one was denied, the receiver cannot reassemble it.
type policy struct{}

func (policy) rule(w *Wants, r Rule) {
	for _, f := range []family{ipv4(), ipv6()} {
		r := r.of(f)
		if !f.admits(r.Src) || !f.admits(r.Dst) {
			continue
		}
		if !r.Allow {
			w.flow(at(tablePolicy, r.rank(), ruleMatch(r, f)...).drop(reasonDenied))
			continue
		}
		for _, allowed := range r.allowed(f) {
			w.flow(at(tablePolicy, r.rank(), allowed...).goTo(tableForward))
		}
		if rest := r.ofLaterFragments(f); rest != r {
			later := append(ruleMatch(rest, f), openflow.IPLaterFragment())
			w.flow(at(tablePolicy, r.rank(), later...).goTo(tableForward))
		}
	}
}

// allowed returns the matches of a rule that allows. One for a source port, which replies have, matches only
// TCP packets with ACK or RST: it does not allow to begin a connection from that port.
func (r Rule) allowed(f family) []openflow.Match {
	m := ruleMatch(r, f)
	if r.Protocol != openflow.ProtoTCP || r.SrcPort == 0 || r.DstPort != 0 || r.TCPFlags != "" {
		return []openflow.Match{m}
	}
	return []openflow.Match{
		append(slices.Clone(m), openflow.TCPFlags(openflow.TCPAck, openflow.TCPAck)),
		append(slices.Clone(m), openflow.TCPFlags(openflow.TCPRst, openflow.TCPRst)),
	}
}

// rank returns the priority of the rule's flows: a denial is above a permission of equal priority.
func (r Rule) rank() uint16 {
	rank := priorityRules + 2*uint16(r.Priority)
	if r.Allow {
		return rank
	}
	return rank + 1
}

// of returns the rule for packets of a family.
func (r Rule) of(f family) Rule {
	six := f.ethType == openflow.EthTypeIPv6
	if six && r.Src6.IsValid() {
		r.Src = r.Src6
	}
	if six && r.Dst6.IsValid() {
		r.Dst = r.Dst6
	}
	r.Src6, r.Dst6 = netip.Prefix{}, netip.Prefix{}
	return r
}

// ofLaterFragments returns the rule without the fields that a later fragment lacks.
func (r Rule) ofLaterFragments(f family) Rule {
	r.SrcPort, r.DstPort, r.TCPFlags = 0, 0, ""
	if f.ethType == openflow.EthTypeIPv6 {
		r.Protocol = 0
	}
	return r
}

// admits reports whether packets of the family can match a rule's prefix.
func (f family) admits(p netip.Prefix) bool {
	return !p.IsValid() || familyOf(p.Addr()).ethType == f.ethType
}

func ruleMatch(r Rule, f family) openflow.Match {
	m := openflow.Match{f.is()}
	if r.SrcGroup != 0 {
		m = append(m, regSrcGroup.is(uint32(r.SrcGroup)))
	}
	if r.DstGroup != 0 {
		m = append(m, regDstGroup.is(uint32(r.DstGroup)))
	}
	return append(m, packetMatch(r, f)...)
}

// packetMatch returns the match of a rule, except groups.
func packetMatch(r Rule, f family) (m openflow.Match) {
	if r.Src.IsValid() && r.Src.Bits() > 0 {
		m = append(m, f.src(r.Src.Masked()))
	}
	if r.Dst.IsValid() && r.Dst.Bits() > 0 {
		m = append(m, f.dst(r.Dst.Masked()))
	}
	switch r.Protocol {
	case 0:
		return m
	case openflow.ProtoICMP:
		return append(m, f.isICMP())
	case openflow.ProtoTCP:
		return append(m, transport(r, openflow.TCPSrc, openflow.TCPDst)...)
	case openflow.ProtoUDP:
		return append(m, transport(r, openflow.UDPSrc, openflow.UDPDst)...)
	case openflow.ProtoSCTP:
		return append(m, transport(r, openflow.SCTPSrc, openflow.SCTPDst)...)
	default:
		return append(m, openflow.IPProto(r.Protocol))
	}
}

// transport matches a protocol that has ports.
func transport(r Rule, src, dst func(uint16) openflow.FieldMatch) openflow.Match {
	m := openflow.Match{openflow.IPProto(r.Protocol)}
	if r.SrcPort != 0 {
		m = append(m, src(r.SrcPort))
	}
	if r.DstPort != 0 {
		m = append(m, dst(r.DstPort))
	}
	if flags, ok := tcpFlags[r.TCPFlags]; ok && r.Protocol == openflow.ProtoTCP {
		m = append(m, openflow.TCPFlags(flags.value, flags.mask))
	}
	return m
}

// tcpFlags are the flag expressions a rule may have. "syn,!ack" is the first
// packet of a connection and nothing else: the only state a rule knows.
var tcpFlags = map[string]struct{ value, mask uint16 }{
	"syn":      {openflow.TCPSyn, openflow.TCPSyn},
	"ack":      {openflow.TCPAck, openflow.TCPAck},
	"syn,ack":  {openflow.TCPSyn | openflow.TCPAck, openflow.TCPSyn | openflow.TCPAck},
	"syn,!ack": {openflow.TCPSyn, openflow.TCPSyn | openflow.TCPAck},
	"!syn,ack": {openflow.TCPAck, openflow.TCPSyn | openflow.TCPAck},
}

// Merge unites two flows of one table, priority and match that are clauses of conjunctions (ovs-fields(7)): a
// matching packet fulfils the clauses of both. Other flows cannot be united; then ok is false, and one of them
// has to be chosen. The order of arguments and of several merges does not matter.
func Merge(a, b openflow.Flow) (united openflow.Flow, ok bool) {
	if !IsClause(a) || !IsClause(b) {
		return openflow.Flow{}, false
	}
	united = a
	united.Cookie = min(a.Cookie, b.Cookie)
	united.Actions = slices.Concat(a.Actions, b.Actions)
	slices.SortFunc(united.Actions, func(x, y openflow.Action) int {
		a, b := x.(openflow.Conjunction), y.(openflow.Conjunction)
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Clause, b.Clause), cmp.Compare(a.Clauses, b.Clauses))
	})
	united.Actions = slices.Compact(united.Actions)
	return united, true
}

// IsClause reports whether a flow only fulfils clauses of conjunctions.
func IsClause(f openflow.Flow) bool {
	if len(f.Actions) == 0 || f.Goto != 0 {
		return false
	}
	for _, a := range f.Actions {
		if _, ok := a.(openflow.Conjunction); !ok {
			return false
		}
	}
	return true
}

// Preferred reports whether a is to be in the switch rather than b, if both have the same MatchKey. A flow that
// drops comes first; of two that do the same, the one with the smaller cookie, so that the counter stays with
// one object. Only actions are compared, not matches.
func Preferred(a, b openflow.Flow) bool {
	if aDrops, bDrops := isDrop(a), isDrop(b); aDrops != bDrops {
		return aDrops
	}
	return a.Cookie < b.Cookie
}

func isDrop(f openflow.Flow) bool { return f.Goto == tableDrop || f.Goto == 0 && len(f.Actions) == 0 }

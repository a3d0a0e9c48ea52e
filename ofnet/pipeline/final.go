package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// final is how rules of groups end the judgement of connections, in tenants that want it so (netctl tenant create
// --policy-mode final). Else tiers are asked about all that groups allow.
//
// Each direction is judged on its own, by the rules of its own group: what the sender may begin by those of direction out of
// the sender's group, what the receiver accepts by those of direction in of the receiver's. If the highest of these that is about
// the connection allows it, no tier is asked in that direction. If it denies, and the packet is here nevertheless, as a
// higher rule of the other end has let it pass in POLICY, the tiers are asked. So are they about what none of these rules is about.
//
//	KNOWN      an answer, from or to such a group: groups change places, too   -> FIRST_OUT
//	FIRST_OUT  above the tier: the sender's group allows                       -> FIRST_IN
//	           it denies: its rules are not asked again                        -> FIRST_OUT
//	FIRST_IN   likewise, the receiver's                                        -> ADMIT
//
// These flows are in the tables of the tiers, and see connections as tiers do: by what the connection tracker knows of
// the first packet. Of TCP that is one with SYN and without ACK, so a rule about other packets is about no
// connection. SCTP is judged packet by packet, each as the first of one.
//
// What there is about a connection is judged where tiers judge it, and nowhere else: whoever has no tiers does not meet these flows.
type final struct{}

// Ends is in which direction a rule ends the judgement of connections that it allows.
type Ends uint8

// Directions.
const (
	EndsNone Ends = iota // tiers are asked
	EndsOut              // what members of SrcGroup begin
	EndsIn               // what members of DstGroup accept
)

// priorityGroups is above that of all rules of tiers: rules of groups have theirs, added to it.
const priorityGroups uint16 = 61000

// askedBit of the register with a group is set when rules of the group are not to be asked any more. MaxGroup is below.
const askedBit = 31

func (final) rule(w *Wants, r Rule) {
	own, ends := r.judging()
	if !ends {
		return
	}
	s := sides[r.Ends == EndsOut]
	for _, f := range []family{ipv4(), ipv6()} {
		r := r.of(f)
		if !f.admits(r.Src) || !f.admits(r.Dst) {
			continue
		}
		decides := at(s.tables[FirstTier], priorityGroups+r.rank(), connectionMatch(r, f)...)
		if r.Allow {
			w.flow(decides.goTo(s.after))
			continue
		}
		w.flow(decides.do(openflow.LoadReg(own.Index, askedBit, 1, 1)).backTo(s.tables[FirstTier]))
	}
	group := uint32(r.SrcGroup)
	if r.Ends == EndsIn {
		group = uint32(r.DstGroup)
	}
	for _, end := range []Register{regSrcGroup, regDstGroup} {
		w.flow(at(tableKnown, priorityTurned, tracked(openflow.CTRpl), end.is(group)).do(turnedEnds()...).do(turned(regSrcGroup, regDstGroup)...).goTo(tableFirstOut))
	}
}

// judging tells whether a rule ends judgements, and in which register the group is that it does so for.
func (r Rule) judging() (own Register, ends bool) {
	begins := r.SrcPort == 0 && (r.TCPFlags == "" || r.TCPFlags == "syn" || r.TCPFlags == "syn,!ack")
	switch {
	case r.Ends == EndsOut:
		return regSrcGroup, begins && r.SrcGroup != 0
	case r.Ends == EndsIn:
		return regDstGroup, begins && r.DstGroup != 0
	}
	return own, false
}

// connectionMatch is what a rule is about as tiers see it.
func connectionMatch(r Rule, f family) openflow.Match {
	m := openflow.Match{f.is()}
	for _, end := range []struct {
		in    Register
		group uint16
		own   bool
	}{{regSrcGroup, r.SrcGroup, r.Ends == EndsOut}, {regDstGroup, r.DstGroup, r.Ends == EndsIn}} {
		switch {
		case end.group == 0:
		case end.own:
			m = append(m, end.in.is(uint32(end.group))) // and not asked before
		default:
			m = append(m, openflow.Reg(end.in.Index, uint32(end.group), 1<<askedBit-1))
		}
	}
	if r.Protocol == openflow.ProtoSCTP {
		return append(m, packetMatch(r, f)...)
	}
	tracked := openflow.Match{}
	if r.Src.IsValid() && r.Src.Bits() > 0 {
		tracked = append(tracked, openflow.CTNwSrc(r.Src.Masked()))
	}
	if r.Dst.IsValid() && r.Dst.Bits() > 0 {
		tracked = append(tracked, openflow.CTNwDst(r.Dst.Masked()))
	}
	switch r.Protocol {
	case 0:
	case openflow.ProtoTCP, openflow.ProtoUDP:
		if tracked = append(tracked, openflow.CTNwProto(r.Protocol)); r.DstPort != 0 {
			tracked = append(tracked, openflow.CTTpDst(r.DstPort))
		}
	case openflow.ProtoICMP:
		tracked = append(tracked, openflow.CTNwProto(f.icmp))
	default:
		tracked = append(tracked, openflow.CTNwProto(r.Protocol))
	}
	if len(tracked) > 0 {
		m = append(append(m, trackedState()), tracked...)
	}
	return m
}

package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// final lets rules of groups end the evaluation of connections, in tenants that are configured so (netctl
// tenant create --policy-mode final). Otherwise tiers are applied to all that groups allow.
//
// Each direction is evaluated on its own, by the rules of its own group: what the sender may begin by those of
// direction out of the sender's group, what the receiver accepts by those of direction in of the receiver's. If
// the highest of these that matches the connection allows it, no tier is applied in that direction. If it
// denies, and the packet gets here nevertheless, as a higher rule of the other end has let it pass in POLICY,
// the tiers are applied; so are they if none of these rules matches.
//
//	KNOWN      an answer, from or to such a group: groups are exchanged, too   -> FIRST_OUT
//	FIRST_OUT  above the tier: the sender's group allows                       -> FIRST_IN
//	           it denies: its rules are not applied again                      -> FIRST_OUT
//	FIRST_IN   likewise, the receiver's                                        -> ADMIT
//
// These flows are in the tables of the tiers, and match connections as tiers do: by the connection tracker's
// tuple of the first packet. Of TCP that is one with SYN and without ACK, so a rule for other packets matches
// no connection. SCTP is evaluated packet by packet, each as the first of a connection.
//
// The rules are applied where tiers are, and nowhere else: packets of endpoints without tiers do not reach these flows.
type final struct{}

// Ends is the direction in which a rule ends the evaluation of connections that it allows.
type Ends uint8

// Directions.
const (
	EndsNone Ends = iota // tiers are applied
	EndsOut              // what members of SrcGroup begin
	EndsIn               // what members of DstGroup accept
)

// priorityGroups is above all rules of tiers: the priorities of group rules are added to it.
const priorityGroups uint16 = 61000

// askedBit of the register with a group is set when rules of the group are not to be applied any more. MaxGroup is
// below.
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

// judging reports whether a rule ends the evaluation, and returns the register with the group for which it does.
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

// connectionMatch returns the match of a rule on connections, as tiers have it.
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
			m = append(m, end.in.is(uint32(end.group))) // and not applied before
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

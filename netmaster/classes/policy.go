package classes

import (
	"net/netip"
	"slices"
)

// Policy is what a policy of Kubernetes says, of whatever kind.
type Policy struct {
	Subject  PodSelector
	Tier     Tier
	Priority int  // of the first and the last tier: lower comes first
	In, Out  bool // the directions that it is about
	Rules    []Rule
}

// Tier is one of those that judge a connection.
type Tier int

// Tiers, in their order. Policies of the middle one isolate their subjects.
const (
	First Tier = iota
	Isolating
	Last
)

// Verdict is what a rule says.
type Verdict string

// Verdicts.
const (
	Accept Verdict = "accept"
	Deny   Verdict = "deny"
	Pass   Verdict = "pass"
)

// Rule is about connections of its policy's subjects.
type Rule struct {
	Out     bool // that they begin; else that they accept
	Verdict Verdict
	AnyPeer bool
	Peers   []PodSelector
	Nets    []netip.Prefix // masked
	Excepts []Except       // what was taken out of Nets
	Names   []string       // of domains, with *. in front: all below
	Ports   []Port         // nil: any, of any protocol
}

// Except is what was taken out of a network; all are masked.
type Except struct {
	Net    netip.Prefix
	Except []netip.Prefix
}

// Port is a port, or some, at the receiver of a connection.
type Port struct {
	Protocol    uint8  // 0, of a name: any
	Name        string // of a container's port; empty: by number
	First, Last uint16
}

// isAnyPod tells whether a rule can be written as one about any pod, whose classes are not listed. One that passes
// cannot: to an agent that does not know the form it would be about nobody, and another rule could accept what this one leaves to
// the next tier.
func (r Rule) isAnyPod() bool {
	return r.Verdict != Pass && slices.ContainsFunc(r.Peers, PodSelector.isAnyPod)
}

// matchesName tells whether a port name of a policy means a port of a pod.
func (p Port) matchesName(of NamedPort) bool {
	return p.Name == of.Name && (p.Protocol == 0 || p.Protocol == of.Protocol)
}

// MaxNets is how many networks a policy can name with what exceptions leave of them. Few exceptions leave
// very many: each of an address of IPv6 leaves up to 128.
const MaxNets = 1 << 15

// Without are the fewest prefixes that make one without others; ok is false if they are more than most.
func Without(net netip.Prefix, except []netip.Prefix, most int) (rest []netip.Prefix, ok bool) {
	if rest = without(nil, net, except, most); len(rest) > most {
		return nil, false
	}
	return rest, true
}

// without adds these prefixes, and stops where they are more than most. Each half is told only the exceptions
// within it, so an exception is looked at once for each of its bits.
func without(rest []netip.Prefix, net netip.Prefix, except []netip.Prefix, most int) []netip.Prefix {
	within := slices.DeleteFunc(slices.Clone(except), func(e netip.Prefix) bool { return !e.Overlaps(net) })
	switch {
	case len(rest) > most, slices.ContainsFunc(within, func(e netip.Prefix) bool { return e.Bits() <= net.Bits() }):
		return rest
	case len(within) == 0:
		return append(rest, net)
	}
	for _, half := range halves(net) {
		rest = without(rest, half, within, most)
	}
	return rest
}

// halves of a prefix that is longer than an address.
func halves(net netip.Prefix) [2]netip.Prefix {
	bits := net.Bits()
	raw := net.Masked().Addr().AsSlice()
	low, _ := netip.AddrFromSlice(raw)
	raw[bits/8] |= 0x80 >> (bits % 8)
	high, _ := netip.AddrFromSlice(raw)
	return [2]netip.Prefix{netip.PrefixFrom(low, bits+1), netip.PrefixFrom(high, bits+1)}
}

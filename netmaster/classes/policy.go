package classes

import (
	"net/netip"
	"slices"
)

// Policy is the content of a Kubernetes policy of any kind.
type Policy struct {
	Subject  PodSelector
	Tier     Tier
	Priority int  // of the first and the last tier: lower is evaluated first
	In, Out  bool // the directions that it covers
	Rules    []Rule
}

// Tier is a tier of policies that are evaluated for a connection.
type Tier int

// Tiers, in their order. Policies of the middle one isolate their subjects.
const (
	First Tier = iota
	Isolating
	Last
)

// Verdict is the action of a rule.
type Verdict string

// Verdicts.
const (
	Accept Verdict = "accept"
	Deny   Verdict = "deny"
	Pass   Verdict = "pass"
)

// Rule is about connections of its policy's subjects.
type Rule struct {
	Out     bool // connections that they open; false: that they accept
	Verdict Verdict
	AnyPeer bool
	Peers   []PodSelector
	Nets    []netip.Prefix // masked
	Excepts []Except       // subtracted from Nets
	Names   []string       // of domains; *. in front: all names below
	Ports   []Port         // nil: any, of any protocol
}

// Except is a set of networks subtracted from a network; all are masked.
type Except struct {
	Net    netip.Prefix
	Except []netip.Prefix
}

// Port is a port, or a range, at the receiver of a connection.
type Port struct {
	Protocol    uint8  // 0 with Name: any
	Name        string // of a container's port; empty: by number
	First, Last uint16
}

// isAnyPod reports whether a rule can be written as one about any pod, without a list of classes. A rule with
// action pass cannot: for an agent that does not support the form it would match no peer, and another rule could
// accept what this one passes to the next tier.
func (r Rule) isAnyPod() bool {
	return r.Verdict != Pass && slices.ContainsFunc(r.Peers, PodSelector.isAnyPod)
}

// matchesName reports whether a port name of a policy matches a port of a pod.
func (p Port) matchesName(of NamedPort) bool {
	return p.Name == of.Name && (p.Protocol == 0 || p.Protocol == of.Protocol)
}

// MaxNets limits the networks of a policy after the exceptions are subtracted. A few exceptions may leave many:
// each of an IPv6 address leaves up to 128.
const MaxNets = 1 << 15

// Without returns the fewest prefixes that make up net without the exceptions; ok is false if there are more than
// most.
func Without(net netip.Prefix, except []netip.Prefix, most int) (rest []netip.Prefix, ok bool) {
	if rest = without(nil, net, except, most); len(rest) > most {
		return nil, false
	}
	return rest, true
}

// without appends these prefixes, and stops when there are more than most. Each half gets only the exceptions
// within it, so an exception is visited once for each of its bits.
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

// halves returns the two halves of a prefix that is shorter than an address.
func halves(net netip.Prefix) [2]netip.Prefix {
	bits := net.Bits()
	raw := net.Masked().Addr().AsSlice()
	low, _ := netip.AddrFromSlice(raw)
	raw[bits/8] |= 0x80 >> (bits % 8)
	high, _ := netip.AddrFromSlice(raw)
	return [2]netip.Prefix{netip.PrefixFrom(low, bits+1), netip.PrefixFrom(high, bits+1)}
}

package classes

import "net/netip"

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
	Names   []string       // of domains, with *. in front: all below
	Ports   []Port         // nil: any, of any protocol
}

// Port is a port, or some, at the receiver of a connection.
type Port struct {
	Protocol    uint8  // 0, of a name: any
	Name        string // of a container's port; empty: by number
	First, Last uint16
}

// means tells whether a name stands for a port of a pod.
func (p Port) means(of NamedPort) bool {
	return p.Name == of.Name && (p.Protocol == 0 || p.Protocol == of.Protocol)
}

// Without are the fewest prefixes that make one without others.
func Without(net netip.Prefix, except []netip.Prefix) (rest []netip.Prefix) {
	within := false
	for _, e := range except {
		if e.Addr().Is4() != net.Addr().Is4() {
			continue
		}
		if e.Bits() <= net.Bits() && e.Contains(net.Addr()) {
			return nil
		}
		within = within || net.Contains(e.Addr())
	}
	if !within {
		return []netip.Prefix{net}
	}
	for _, half := range halves(net) {
		rest = append(rest, Without(half, except)...)
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

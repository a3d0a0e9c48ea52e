package k8s

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// claim is a range of addresses and its purpose.
type claim struct {
	what   string // for messages: "service range kubernetes"
	prefix netip.Prefix
}

func (c claim) String() string { return c.what + " " + c.prefix.String() }

// surroundings are the addresses in use around a new cluster.
type surroundings struct {
	services []claim  // service CIDRs: pods get addresses of their IP families
	pods     []source // pod CIDRs, the preferred source first
	taken    []claim  // other addresses that must not be those of pods
}

// source is a configuration that names pod CIDRs.
type source struct {
	what   string
	ranges []netip.Prefix
}

// ranges are the ranges of a new cluster for one IP family.
type ranges struct{ pods, nodes claim }

// Default ranges. Those for nodes are for their own interfaces in
// the network of pods; the first that overlaps nothing is used.
var (
	otherwise = source{"default range of pods", []netip.Prefix{netip.MustParsePrefix("10.128.0.0/14"), netip.MustParsePrefix("fd00:10:128::/64")}}
	forNodes  = []netip.Prefix{
		netip.MustParsePrefix("10.127.0.0/16"), netip.MustParsePrefix("100.127.0.0/16"), netip.MustParsePrefix("192.168.0.0/16"),
		netip.MustParsePrefix("fd00:10:127::/64"), netip.MustParsePrefix("fd00:100:127::/64"),
	}
)

// choose returns the ranges of pods and nodes, for every IP family of the service CIDRs. It fails if the pod
// range or a service CIDR overlaps other addresses.
func (s surroundings) choose() (chosen []ranges, err error) {
	if len(s.services) == 0 {
		return nil, fmt.Errorf("the API server has no ServiceCIDR: it makes one at its start, from version 1.33 on")
	}
	for _, c := range s.services {
		if with := overlapping(c.prefix, s.taken); with != nil {
			return nil, fmt.Errorf("%s overlaps %s", c, with)
		}
	}
	for i, c := range s.taken {
		if with := overlapping(c.prefix, s.taken[:i]); with != nil && c.prefix != with.prefix {
			return nil, fmt.Errorf("%s overlaps %s", c, with)
		}
	}
	for _, v4 := range []bool{true, false} {
		if !slices.ContainsFunc(s.services, func(c claim) bool { return c.prefix.Addr().Is4() == v4 }) {
			continue
		}
		r := ranges{pods: s.rangeOfPods(v4)}
		others := slices.Concat(s.services, s.taken)
		if with := overlapping(r.pods.prefix, others); with != nil {
			return nil, fmt.Errorf("%s overlaps %s", r.pods, with)
		}
		others = append(others, r.pods)
		for _, p := range forNodes {
			if p.Addr().Is4() == v4 && overlapping(p, others) == nil {
				r.nodes = claim{"range of nodes", p}
				break
			}
		}
		if !r.nodes.prefix.IsValid() {
			return nil, fmt.Errorf("no range for the nodes' own addresses is free: all of %s overlap those of pods, services and nodes; "+
				"make the networks default-net and contivh1 of tenant default by netctl", joined(forNodes))
		}
		chosen = append(chosen, r)
	}
	return chosen, nil
}

// rangeOfPods returns the range of the first source with one of this IP family.
func (s surroundings) rangeOfPods(v4 bool) claim {
	for _, from := range append(slices.Clone(s.pods), otherwise) {
		for _, p := range from.ranges {
			if p.Addr().Is4() == v4 {
				return claim{from.what, p.Masked()}
			}
		}
	}
	return claim{} // not reached: the last source has both
}

func overlapping(p netip.Prefix, others []claim) *claim {
	for _, other := range others {
		if p.Overlaps(other.prefix) {
			return &other
		}
	}
	return nil
}

// block returns the range that consists of these parts without gaps: a power of two of them, aligned.
func block(parts []netip.Prefix) (whole netip.Prefix, ok bool) {
	parts = slices.Clone(parts)
	slices.SortFunc(parts, netip.Prefix.Compare)
	parts = slices.Compact(parts)
	for len(parts) > 1 {
		merged := false
		for i := range len(parts) - 1 {
			if double, fits := siblings(parts[i], parts[i+1]); fits {
				parts, merged = slices.Replace(parts, i, i+2, double), true
				break
			}
		}
		if !merged {
			return netip.Prefix{}, false
		}
	}
	if len(parts) == 0 {
		return netip.Prefix{}, false
	}
	return parts[0], true
}

// siblings returns the range whose halves are a and b, the lower one first.
func siblings(a, b netip.Prefix) (double netip.Prefix, fits bool) {
	if a.Bits() != b.Bits() || a.Bits() == 0 || a == b {
		return netip.Prefix{}, false
	}
	double = netip.PrefixFrom(a.Addr(), a.Bits()-1).Masked()
	return double, double.Addr() == a.Addr() && double.Contains(b.Addr())
}

// ParseRanges parses "10.0.0.0/8,fd00::/64", at most one range of each IP family.
func ParseRanges(text string) (all []netip.Prefix, err error) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		p, err := netip.ParsePrefix(item)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other netip.Prefix) bool { return other.Addr().Is4() == p.Addr().Is4() }) {
			return nil, fmt.Errorf("%s is a second range of its version of IP: want one of each at most", item)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

func joined(all []netip.Prefix) string {
	var texts []string
	for _, p := range all {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ", ")
}

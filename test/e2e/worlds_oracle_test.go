package e2e

import (
	"net/netip"
	"slices"
)

// The oracle of the worlds knows the model, and neither directional rules nor flows.

// passing is a packet between two pods.
type passing struct {
	from, to     *worldPod
	src, dst     netip.Addr
	protocol     string
	sport, dport int // 0: one without rules
	opens        bool
}

// like returns the pod's address of the same IP family.
func (p *worldPod) like(a netip.Addr) netip.Addr {
	for _, own := range p.addresses {
		if own.Is4() == a.Is4() {
			return own
		}
	}
	return netip.Addr{}
}

// passes evaluates the rules: those of the highest priority decide, and each of them may deny.
func (w *world) passes(p passing) bool {
	verdict, best := true, 0
	for _, r := range w.rules {
		switch {
		case r.priority < best || !w.concerns(r, p):
		case r.priority == best:
			verdict = verdict && r.action == "allow"
		default:
			verdict, best = r.action == "allow", r.priority
		}
	}
	return verdict
}

// concerns reports whether a rule of a group's policy matches a packet: one in its direction to the port, or an
// answer from there.
func (w *world) concerns(r worldRule, p passing) bool {
	if r.protocol != "" && r.protocol != p.protocol {
		return false
	}
	asked, answered := r.port == p.dport, r.port == p.sport && r.port != 0
	if r.port == 0 {
		asked = r.protocol != "tcp" || p.opens
	}
	if r.direction == "out" {
		asked, answered = answered, asked
	}
	return asked && w.has(p.to, r) && w.isPeer(r, p.from, p.src) || answered && w.has(p.from, r) && w.isPeer(r, p.to, p.dst)
}

// has reports whether the policy of a rule is attached to a pod's group.
func (w *world) has(p *worldPod, r worldRule) bool {
	return p.tenant == r.tenant && slices.ContainsFunc(w.groups, func(g worldGroup) bool {
		return g.tenant == p.tenant && g.name == p.group && slices.Contains(g.policies, r.policy)
	})
}

// isPeer reports whether the other side of a rule is that pod, at that address.
func (w *world) isPeer(r worldRule, p *worldPod, a netip.Addr) bool {
	if r.group != "" && (p.tenant != r.tenant || p.group != r.group) {
		return false
	}
	if r.network != "" {
		n := w.network(r.tenant, r.network)
		return n.subnet4.Contains(a) || n.subnet6.Contains(a)
	}
	return !r.address.IsValid() || r.address.Contains(a)
}

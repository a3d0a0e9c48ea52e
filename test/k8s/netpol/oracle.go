package netpol

import (
	"net/netip"
	"slices"
)

// Allows reports whether a pod may open a connection to a port of another. It follows the documentation of the API
// word by word: a connection is allowed if the egress policies of the source and the ingress policies of the
// destination both allow it. A pod is isolated in a direction by any policy that selects it and has that direction
// in its policyTypes; if isolated, it may do what any rule of those policies allows.
func (w *World) Allows(from, to Pod, protocol string, port int, v6 bool) bool {
	isolated, allowed := map[string]bool{}, map[string]bool{}
	for _, p := range w.Policies {
		if p.selects(to) && slices.Contains(p.Spec.PolicyTypes, "Ingress") {
			isolated["in"] = true
			for _, r := range p.Spec.Ingress {
				if w.anyPeer(p, r.From, from, v6) && anyPort(r.Ports, to, protocol, port) {
					allowed["in"] = true
				}
			}
		}
		if p.selects(from) && slices.Contains(p.Spec.PolicyTypes, "Egress") {
			isolated["out"] = true
			for _, r := range p.Spec.Egress {
				if w.anyPeer(p, r.To, to, v6) && anyPort(r.Ports, to, protocol, port) {
					allowed["out"] = true
				}
			}
		}
	}
	return (!isolated["in"] || allowed["in"]) && (!isolated["out"] || allowed["out"])
}

func (p Policy) selects(pod Pod) bool {
	return pod.Namespace == p.Metadata.Namespace && p.Spec.PodSelector.matches(pod.Labels)
}

// anyPeer reports whether a peer matches the pod; an empty list matches all.
func (w *World) anyPeer(p Policy, peers []Peer, pod Pod, v6 bool) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(peer Peer) bool {
		if peer.IPBlock != nil {
			return peer.IPBlock.contains(pod.Address(v6))
		}
		if peer.NamespaceSelector == nil {
			return pod.Namespace == p.Metadata.Namespace && peer.PodSelector.matches(pod.Labels)
		}
		return peer.NamespaceSelector.matches(w.Namespaces[pod.Namespace]) && (peer.PodSelector == nil || peer.PodSelector.matches(pod.Labels))
	})
}

func (b IPBlock) contains(a netip.Addr) bool {
	in := func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(a) }
	return in(b.CIDR) && !slices.ContainsFunc(b.Except, in)
}

// anyPort reports whether a port matches; an empty list matches all ports of all protocols.
func anyPort(ports []Port, to Pod, protocol string, number int) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p Port) bool {
		if wanted := p.Protocol; wanted != protocol && (wanted != "" || protocol != "TCP") {
			return false
		}
		switch port := p.Port.(type) {
		case string:
			return slices.Contains(to.Ports, ContainerPort{port, protocol, number})
		case int:
			return port <= number && number <= max(port, p.EndPort)
		}
		return true
	})
}

func (s *Selector) matches(labels map[string]string) bool {
	for key, value := range s.MatchLabels {
		if has, ok := labels[key]; !ok || has != value {
			return false
		}
	}
	for _, e := range s.MatchExpressions {
		value, ok := labels[e.Key]
		listed := ok && slices.Contains(e.Values, value)
		if !map[string]bool{"In": listed, "NotIn": !listed, "Exists": ok, "DoesNotExist": !ok}[e.Operator] {
			return false
		}
	}
	return true
}

package e2e

import (
	"net/netip"
	"slices"
)

// answers is who may answer a question of a pod to an address; empty is nobody.
// Of a service there may be several.
func (w *world) answers(from *worldPod, to netip.Addr, kind string) []string {
	if from.like(to) == (netip.Addr{}) {
		return []string{""}
	}
	at := slices.IndexFunc(w.services, func(s worldService) bool { return s.tenant == from.tenant && s.address == to })
	if at < 0 {
		for _, p := range w.pods {
			if slices.Contains(p.addresses, to) && w.reachable(from, p, to) {
				return []string{w.answer(from, p, to, kind)}
			}
		}
		return []string{""}
	}
	if kind == "ping" {
		return []string{"pong"}
	}
	var all []string
	for _, p := range w.pods {
		for _, a := range p.addresses {
			if p.provides && p.tenant == from.tenant && a.Is4() {
				all = append(all, w.answer(from, p, a, kind))
			}
		}
	}
	if len(all) == 0 {
		all = []string{""}
	}
	return all
}

// reachable tells whether there is a way, whatever rules say.
func (w *world) reachable(from, to *worldPod, a netip.Addr) bool {
	same := from.tenant == to.tenant && from.network == to.network
	switch {
	case from == to:
		return false
	case w.mode == "bridge":
		return same
	}
	return from.tenant == to.tenant || w.routedVLANs()
}

// answer is what the pod says, if all packets pass that it takes.
func (w *world) answer(from, to *worldPod, a netip.Addr, kind string) string {
	there := passing{from: from, to: to, src: from.like(a), dst: a}
	back := passing{from: to, to: from, src: a, dst: from.like(a)}
	name := to.name
	packets := []*passing{&there, &back}
	switch kind {
	case "ping":
		there.protocol, back.protocol, name = "icmp", "icmp", "pong"
	case "udp":
		there.protocol, there.dport, back.protocol, back.sport = "udp", 7, "udp", 7
	case "tcp":
		there.protocol, there.dport, back.protocol, back.sport = "tcp", 80, "tcp", 80
		opening := there
		opening.opens = true
		packets = append(packets, &opening)
	}
	for _, p := range packets {
		if !w.passes(*p) {
			return ""
		}
	}
	return name
}

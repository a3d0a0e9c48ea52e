package e2e

import (
	"net/netip"
	"slices"
)

// kind is a kind of question.
type kind struct {
	protocol string // as the probe calls it
	port     string
	shut     bool // no service has that port, and pods are not asked for it
}

var kinds = []kind{
	{protocol: "ping"},
	{protocol: "tcp", port: tcpPort},
	{protocol: "udp", port: echoPort},
	{protocol: "sctp", port: sctpPort},
	{protocol: "tcp", port: "81", shut: true},
	{protocol: "udp", port: "8", shut: true},
}

// sctpPort is no other protocol's, as the probe distinguishes targets by address and port.
const sctpPort = "9"

// question is a pod's request to an address.
type question struct {
	kind
	size packetSize
	to   netip.Addr
}

// answers returns which pods may answer a question of a pod; "" is no answer. A service may have several. Packets
// are evaluated alike whatever their size: docs/pipeline.md, Fragments.
func (w *world) answers(from *worldPod, q question) []string {
	if !from.like(q.to).IsValid() {
		return []string{""}
	}
	if s, ok := w.serviceAt(from, q.to); ok {
		return w.served(s, from, q)
	}
	for _, p := range w.pods {
		if slices.Contains(p.addresses, q.to) && w.reachable(from, p, q.to) {
			return []string{w.answer(from, p, q.to, q.protocol)}
		}
	}
	return []string{""}
}

// reachable reports whether a pod has a path to another, regardless of rules.
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

// answer returns the pod's answer, or "" unless all packets of the exchange pass.
func (w *world) answer(from, to *worldPod, a netip.Addr, protocol string) string {
	there := passing{from: from, to: to, src: from.like(a), dst: a}
	back := passing{from: to, to: from, src: a, dst: from.like(a)}
	name := to.name
	packets := []*passing{&there, &back}
	switch protocol {
	case "ping":
		there.protocol, back.protocol, name = "icmp", "icmp", "pong"
	case "udp":
		there.protocol, there.dport, back.protocol, back.sport = "udp", 7, "udp", 7
	case "sctp":
		there.protocol, there.dport, back.protocol, back.sport = "132", 9, "132", 9
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

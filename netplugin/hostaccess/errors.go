package hostaccess

import (
	"net/netip"

	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// errors are the rules for ICMP errors of endpoints: about what was sent to them, and nothing else. The kernel believes an error
// that quotes an echo reply of the host from anybody: a pod could lower the path MTU between two nodes for all others, or, by
// quoting a packet of a tunnel whose port it has guessed, do so although that is a tracked connection. What machines of the cluster
// sent each other by an infra network they tell themselves: no endpoint sends from their addresses.
func (c Closed) errors() []rule {
	const unasked, betweenNodes = "about nothing that this host knows of", "about what machines of the cluster sent each other"
	return []rule{
		{"icmp type { destination-unreachable, source-quench, redirect, time-exceeded, parameter-problem } ct state != related drop", unasked},
		{"icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem } ct state != related drop", unasked},
		{knftables.Concat("ct state related ip saddr != @"+setNodes, "ct original ip saddr @"+setNodes, "ct reply ip saddr @"+setNodes, "drop"), betweenNodes},
		{knftables.Concat("ct state related ip6 saddr != @"+setNodes6, "ct original ip6 saddr @"+setNodes6, "ct reply ip6 saddr @"+setNodes6, "drop"), betweenNodes},
	}
}

// tooBig are the rules for ICMP errors that tell a machine of the cluster that its packets are too big. Such a packet was sent to the
// address of this host, from which the endpoint's connection comes. The machine would lower its path MTU to this host, also for tunnels
// and the control plane. Endpoints need no such errors: TCP is told the MTU as a connection begins (leave-mss), and they are no routers.
func (c Closed) tooBig() []rule {
	const why = "endpoints lower no path MTU to this host"
	from := knftables.Concat("iifname", quoted(outsideLink))
	return []rule{
		{knftables.Concat(from, "ip daddr @"+setNodes, isTooBig, "drop"), why},
		{knftables.Concat(from, "ip6 daddr @"+setNodes6, isTooBig6, "drop"), why},
	}
}

// ICMP errors that report a packet as too big.
const (
	isTooBig  = "icmp type destination-unreachable icmp code frag-needed"
	isTooBig6 = "icmpv6 type packet-too-big"
)

// pathMTU are the rules that drop such errors if an endpoint sends them by its own address, to whatever machine: it would lower the path MTU
// between that machine and this host for everybody. Those of gateways, and about services, have other addresses, also where these are of the
// same prefix, as for node ports.
func pathMTU(prefixes []netip.Prefix) (rules []rule) {
	for _, p := range prefixes {
		is := map[bool]string{true: isTooBig, false: isTooBig6}[p.Addr().Is4()]
		own := knftables.Concat(version(p), "saddr", p, version(p), "saddr !=", pipeline.AllStandIns(p))
		rules = append(rules, rule{knftables.Concat(own, is, "drop"), "endpoints lower no path MTU of this host"})
	}
	return rules
}

// errorsOfOthers are rules of answersOnly, which drop ICMP errors of endpoints about connections that they have no part in. The kernel
// believes an error from anybody who knows addresses and ports of a connection, and forwards it to the other end: an endpoint could reach
// one of another tenant with what no policy judges, refuse its connections, or make what it sends to a machine small; and likewise
// those of the host itself.
//
// An endpoint tells of what it was sent, at the address that the host knows it by. So one end of the connection is such an address:
// the receiver's, or if the error is about an answer, that of who has begun it. A service tells by its own address, to which the switch
// translates. That it is the same endpoint cannot be compared: endpoints can still tell clients of host ports of their node of what these
// have sent, and machines outside of what they have answered another endpoint.
func errorsOfOthers(prefixes []netip.Prefix) (all []rule) {
	const why = "about what others were sent"
	for _, p := range prefixes {
		ip := version(p)
		from := knftables.Concat("ct state related", ip, "saddr", p)
		services := pipeline.AllStandIns(p)
		all = append(all,
			rule{knftables.Concat(from, "ct direction reply ct reply", ip, "saddr !=", p, "drop"), why},
			rule{knftables.Concat(from, ip, "saddr !=", services, "ct direction reply ct reply", ip, "saddr", services, "drop"), why},
			rule{knftables.Concat(from, "ct direction original ct original", ip, "saddr !=", p, "drop"), why})
	}
	return all
}

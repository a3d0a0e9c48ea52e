package hostaccess

import (
	"net/netip"

	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// errors returns the rules for ICMP errors of endpoints: they may concern only packets sent to that endpoint. The
// kernel accepts from any source an error that quotes an echo reply of the host: a pod could lower the path MTU
// between two nodes for all others; it could even do so for a tracked connection, by quoting a tunnel packet with
// a guessed port. Errors between machines of the cluster over an infra network come from their own addresses, from
// which no endpoint sends.
func (c Closed) errors() []rule {
	const unasked, betweenNodes = "about nothing that this host knows of", "about what machines of the cluster sent each other"
	return []rule{
		{anyError + " ct state != related drop", unasked},
		{anyError6 + " ct state != related drop", unasked},
		{knftables.Concat("ct state related ip saddr != @"+setNodes, "ct original ip saddr @"+setNodes, "ct reply ip saddr @"+setNodes, "drop"), betweenNodes},
		{knftables.Concat("ct state related ip6 saddr != @"+setNodes6, "ct original ip6 saddr @"+setNodes6, "ct reply ip6 saddr @"+setNodes6, "drop"), betweenNodes},
	}
}

// tooBig returns the rules for ICMP errors that report to a machine of the cluster that its packets are too big.
// The quoted packet was sent to this host's address, the source of the endpoint's connection. The machine would
// lower its path MTU to this host, also for tunnels and the control plane. Endpoints need not send such errors:
// TCP negotiates the MTU at the start of a connection (leave-mss), and they are not routers.
func (c Closed) tooBig() []rule {
	const why = "endpoints lower no path MTU to this host"
	from := knftables.Concat("iifname", quoted(outsideLink))
	return []rule{
		{knftables.Concat(from, "ip daddr @"+setNodes, isTooBig, "drop"), why},
		{knftables.Concat(from, "ip6 daddr @"+setNodes6, isTooBig6, "drop"), why},
	}
}

// All ICMP errors, and those that report a packet as too big.
const (
	anyError  = "icmp type { destination-unreachable, source-quench, redirect, time-exceeded, parameter-problem }"
	anyError6 = "icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem }"
	isTooBig  = "icmp type destination-unreachable icmp code frag-needed"
	isTooBig6 = "icmpv6 type packet-too-big"
)

// pathMTU returns the rules that drop such errors if an endpoint sends them from its own address, to any machine:
// it would lower the path MTU between that machine and this host for all. Errors of gateways, and those about
// services, have other source addresses, some of which are in the same prefix, as for node ports (AllStandIns).
func pathMTU(prefixes []netip.Prefix) (rules []rule) {
	for _, p := range prefixes {
		is := map[bool]string{true: isTooBig, false: isTooBig6}[p.Addr().Is4()]
		own := knftables.Concat(version(p), "saddr", p, version(p), "saddr !=", pipeline.AllStandIns(p))
		rules = append(rules, rule{knftables.Concat(own, is, "drop"), "endpoints lower no path MTU of this host"})
	}
	return rules
}

// errorsOfOthers returns rules of answersOnly that drop ICMP errors of endpoints about connections of others. The
// kernel accepts an error from any sender that knows addresses and ports of a connection, and forwards it to the
// other end: an endpoint could send to an endpoint of another tenant packets that no policy evaluates, refuse its
// connections, or reduce its path MTU to a machine; and likewise for connections of the host itself.
//
// An endpoint reports errors about packets sent to it, at its address on the host. So one end of the connection is
// such an address: the receiver's or, if the error is about a reply, the client's. A service reports from its own
// address, to which the switch translates. The rules cannot compare that it is the same endpoint: endpoints can
// still send errors to clients of host ports of their node about the clients' packets, and to machines outside
// about their replies to another endpoint.
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

// errorsFromInfra drops ICMP errors of endpoints of infra networks about connections of others: in a bridged one,
// an endpoint may send the host packets to any address. The kernel accepts an error only at the address from which
// the quoted packet was sent. The host sends to such a network from its address there, so errors at its other
// addresses concern its connections with others, or those that it masquerades. An error at another machine's
// address may concern a connection of an endpoint that left by the host, which never passes through an infra network.
func errorsFromInfra(prefixes []netip.Prefix) chain {
	const why = "about what others were sent"
	c := chain{name: "infra-errors", kind: knftables.FilterType, hook: knftables.PreroutingHook, priority: knftables.ManglePriority}
	for _, is := range []string{anyError, anyError6} {
		c.rules = append(c.rules, rule{knftables.Concat(is, "fib daddr type local fib daddr . iif type != local drop"), why})
	}
	for _, p := range prefixes {
		c.rules = append(c.rules, rule{knftables.Concat("ct state related ct original", version(p), "saddr", p, "drop"), why})
	}
	return c.judging("iifgroup !=", infraGroup)
}

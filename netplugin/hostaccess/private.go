package hostaccess

import (
	"net/netip"

	"sigs.k8s.io/knftables"
)

// privateOut keeps the private addresses of endpoints on this node: each node gives the same ones to endpoints of
// its own, and a host to which a packet with such a source came would answer to an endpoint there, of whichever
// tenant. The connection tracker masquerades nothing that it considers invalid, such as an answer to nothing.
func privateOut(prefixes []netip.Prefix) chain {
	c := chain{name: "private-out", kind: knftables.FilterType, hook: knftables.PostroutingHook, priority: knftables.SNATPriority + "+10"}
	for _, p := range prefixes {
		c.rules = append(c.rules, rule{knftables.Concat("oifname !=", quoted(outsideLink), version(p), "saddr", p, "drop"), "what is not masqueraded does not leave"})
	}
	return c.fromEndpoints()
}

// privateIn drops what arrives with a private source address elsewhere than from endpoints, from nodes of earlier
// versions or strangers, unless the host reaches that address by another interface: other software may have taken a part
// of the prefix while the egress was open, and answers to it reach no endpoint.
func privateIn(prefixes []netip.Prefix) chain {
	c := chain{name: "private-in", kind: knftables.FilterType, hook: knftables.PreroutingHook, priority: knftables.RawPriority}
	for _, p := range prefixes {
		from := knftables.Concat("iifname != {", quoted(outsideLink)+`, "lo" }`, version(p), "saddr", p)
		c.rules = append(c.rules,
			rule{knftables.Concat(from, "fib saddr oifname", quoted(outsideLink), "drop"), "endpoints of this node have these addresses"},
			rule{knftables.Concat(from, "fib saddr type local drop"), "the host itself has this one"})
	}
	return c
}

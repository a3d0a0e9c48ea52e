package hostaccess

import (
	"net/netip"

	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// errorsOfOthers drops ICMP errors of endpoints about connections that they have no part in. The kernel believes an error from anybody
// who knows addresses and ports of a connection, and forwards it to the other end: an endpoint could reach one of another tenant with what
// no policy judges, refuse its connections, or make what it sends to a machine small; and likewise those of the host itself.
//
// An endpoint tells of what it was sent, at the address that the host knows it by. So that is an end of the connection: of packets
// in the original direction the receiver; of answers who has begun it. That it is the same endpoint cannot be compared; but then both ends
// are known to be endpoints, or the sender to go where one has begun. A service that the switch translates answers by its own address.
func errorsOfOthers(prefixes []netip.Prefix) chain {
	c := chain{name: "errors-of-others", kind: knftables.FilterType, hook: knftables.PreroutingHook, priority: knftables.ManglePriority}
	const why = "about what others were sent"
	for _, p := range prefixes {
		ip := version(p)
		from := knftables.Concat("ct state related", ip, "saddr", p)
		services := pipeline.AllStandIns(p)
		c.rules = append(c.rules,
			rule{knftables.Concat(from, "ct direction reply ct reply", ip, "saddr !=", p, "drop"), why},
			rule{knftables.Concat(from, ip, "saddr !=", services, "ct direction reply ct reply", ip, "saddr", services, "drop"), why},
			rule{knftables.Concat(from, "ct direction original ct original", ip, "saddr !=", p, "drop"), why})
	}
	return c.fromEndpoints()
}

package hostaccess

import (
	"net/netip"

	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

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

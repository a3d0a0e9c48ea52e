package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// gateway makes the address of a network's gateway answer pings.
//
// The gateway is nobody's port: it is the anycast MAC, present in every
// switch, and the flows of route.go. Pinging it is what people do first when
// something does not work, so each switch answers for it, to every endpoint of
// the gateway's tenant, and before the policy is asked. As for ARP, there is
// one flow per gateway, which recognises the question, and one for all, which
// turns it round. Pings come from local ports only: the sender's node answers.
//
// Other traffic to the gateway's address is routed, finds no endpoint there,
// and is dropped.
type gateway struct {
	silent
	mac [6]byte
}

// freshTTL is the hop limit of a packet the gateway itself sends.
const freshTTL = 64

func (g gateway) base() []openflow.Flow {
	var flows []openflow.Flow
	for _, f := range []family{ipv4(), ipv6()} {
		flows = append(flows, at(tableEchoReply, priorityExact, f.is(), f.isICMP(), f.echo).
			do(replyFrom(g.mac)...).
			do(swap(f.srcField, f.dstField)...).
			do(set(f.echoed), openflow.SetTTL{TTL: freshTTL}).
			output(openflow.PortInPort))
	}
	return flows
}

func (g gateway) network(n Network) []openflow.Flow {
	var flows []openflow.Flow
	for _, a := range addresses(n.Gateway, n.Gateway6) {
		f := familyOf(a)
		flows = append(flows, at(tableDstGroup, priorityExcept,
			regFromTunnel.is(0), regVRF.is(uint32(n.VRF)), openflow.EthDst(g.mac),
			f.is(), f.isICMP(), f.echo, f.dst(openflow.Host(a))).goTo(tableEchoReply))
	}
	return flows
}

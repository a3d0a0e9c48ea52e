package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// forward forwards packets inside a network and between the networks of a tenant.
//
// A routed packet gets the receiver's MAC, the gateway's as its source, and a hop limit less by one, wherever the
// receiver is. A receiver in the sender's own network is routed just the same: a host may have no route but the
// default one. A network without a gateway is not routed to, and what its endpoints send to a gateway never gets
// here (gateway.go).
//
// Other packets stay in their network and are not changed at all: the network in which they came in must be the
// receiver's. That keeps a packet from the tunnel in the network of its VNI; it was routed by its sender, and does
// not go back.
//
// A packet whose hop limit is used up has a flow of its own (expired.go). Decrementing the TTL to zero would
// raise a packet-in for each, which no meter limits.
type forward struct {
	gateway [6]byte
	others  uint32 // port to other nodes
	size    tooBig
	hops    expired
}

func (f forward) base(w *Wants) {
	w.flow(
		at(tableForward, priorityGuard, regFlooded.is(0), openflow.EthDstMasked(groupBit, groupBit)).drop(reasonMulticast),
		at(tableForward, priorityRefuse, regOut.is(0), regRouted.is(1)).drop(reasonNoRoute),
		at(tableForward, priorityRefuse, regOut.is(0), regRouted.is(0)).drop(reasonUnknown),
		at(tableForward, priorityRefuse, regOrigin.is(originTunnel), regOut.is(f.others)).drop(reasonBack),
		at(tableForward, priorityOther, regRouted.is(1)).drop(reasonNoGateway),
	)
	for _, v := range []family{ipv4(), ipv6()} {
		for ttl := range uint8(2) {
			w.flow(f.hops.ends(at(tableForward, priorityExcept, regRouted.is(1), v.is(), openflow.IPTTL(ttl))))
		}
	}
}

func (f forward) network(w *Wants, n Network) {
	tag := uint32(n.Tag)
	w.flow(at(tableForward, priorityExact, regRouted.is(0), within(tag)).goTo(tableOutput))
	for _, a := range n.gateways() {
		w.flow(at(tableForward, priorityExact, regRouted.is(1), regDstNet.is(tag), familyOf(a).is()).
			do(f.size.check()...).do(openflow.DecTTL{}, set(openflow.EthSrc(f.gateway)), sendToMAC()).goTo(tableOutput))
	}
}

// within matches packets that came in by a network and are for it.
func within(tag uint32) openflow.FieldMatch {
	return openflow.Reg(regNetwork.Index, tag<<regNetwork.Ofs|tag<<regDstNet.Ofs, ^uint32(0))
}

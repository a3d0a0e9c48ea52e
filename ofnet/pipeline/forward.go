package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// forward carries packets inside a network and between the networks of a
// tenant.
//
// What is to be routed gets the receiver's MAC, the gateway's as its source,
// and one hop less to live. Where the receiver is does not matter here. A
// receiver in the sender's own network is routed just the same: a host may have
// no route but the default one. A network without a gateway is not routed to,
// and what its endpoints send to a gateway never gets here (gateway.go).
//
// Everything else stays in its network and is not changed at all: the network
// it came in by must be the receiver's. That is what keeps a packet out of the
// tunnel in the network of its VNI; it was routed by its sender, and does not
// go back.
//
// A packet that cannot live another hop has a flow of its own (expired.go).
// Counting the TTL down to zero would raise a packet-in for each, which no meter limits.
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

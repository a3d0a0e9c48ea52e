package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// expired reports to local endpoints which of their packets have used up their hop limit, as routers do:
// traceroute shows the gateway of the endpoint's network.
//
//	FORWARD   what is to be routed, with the last hop used up (forward.go, router.go): to ANSWER
//	ANSWER    passes the meters of its port and of all endpoints (answer.go)
//	REPLY     to the agent, with the gateway of the network
//
// The agent answers from the gateway's address (package icmperror). Packets of other senders, or without a gateway, are
// dropped. If the switch has no meter for them, too many would reach the agent: then all are dropped.
type expired struct{ noMeter bool }

// PacketExpired is the class of packets whose hop limit is used up.
const PacketExpired PacketClass = 6

// How many packets of all ports of a switch the agent may receive.
const (
	expiredPerSecond = 1000
	expiredAtOnce    = 1000
)

func (x expired) base(w *Wants) {
	if x.noMeter {
		return
	}
	w.Meters = append(w.Meters, PacketExpired.Meter(expiredPerSecond, expiredAtOnce))
	w.flow(
		at(tableAnswer, priorityOther, regOut.is(outExpired)).drop(reasonTTL),
		at(tableReply, priorityGuard, regOut.is(outExpired)).drop(reasonTTL))
}

func (x expired) network(w *Wants, n Network) {
	if x.noMeter || n.Mode.Bridged() {
		return
	}
	for _, a := range n.gateways() {
		w.flow(at(tableReply, priorityTooBig, regOrigin.is(originLocal), regOut.is(outExpired), regNetwork.is(uint32(n.Tag)), familyOf(a).is()).
			do(PacketExpired.Action(a.AsSlice()...)).drop(reasonTTL))
	}
}

// ends ends a flow for packets whose hop limit is used up.
func (x expired) ends(b flowBuilder) openflow.Flow {
	if x.noMeter {
		return b.drop(reasonTTL)
	}
	return b.do(regOut.set(outExpired)).goTo(tableAnswer)
}

// Expired returns the address of the router where a packet's hop limit was used up.
func (p Packet) Expired() (router netip.Addr, ok bool) {
	if p.Class != PacketExpired {
		return netip.Addr{}, false
	}
	return netip.AddrFromSlice(p.Note)
}

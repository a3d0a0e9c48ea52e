package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// expired has local endpoints told which of their packets cannot live another hop, as routers do it: traceroute shows the gateway of
// the endpoint's network.
//
//	FORWARD   what is to be routed, with the last hop used up (forward.go, router.go): to ANSWER
//	ANSWER    passes the meters of its port and of all endpoints (answer.go)
//	REPLY     to the agent, with the gateway of the network
//
// The agent answers from the gateway's address (package icmperror). What others send, or what has no gateway, is dropped. Without
// a meter of the switch for it too many would come to the agent: then all of it is.
type expired struct{ noMeter bool }

// PacketExpired is the class of packets that cannot live another hop.
const PacketExpired PacketClass = 6

// What the agent may be asked for by all ports of a switch.
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

// ends is the end of a flow for what cannot live another hop.
func (x expired) ends(b flowBuilder) openflow.Flow {
	if x.noMeter {
		return b.drop(reasonTTL)
	}
	return b.do(regOut.set(outExpired)).goTo(tableAnswer)
}

// Expired is the address of the router where a packet could not live another hop.
func (p Packet) Expired() (router netip.Addr, ok bool) {
	if p.Class != PacketExpired {
		return netip.Addr{}, false
	}
	return netip.AddrFromSlice(p.Note)
}

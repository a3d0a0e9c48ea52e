package pipeline

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// gateway is the router of a network. It is no port: it is the anycast MAC, present in every switch. What an
// endpoint sends there is routed, if its network has a gateway; a network without one is isolated.
//
// Pinging the gateway is the usual first test when something does not work, so each switch answers for it, to
// every endpoint of the gateway's tenant, and before policies are applied. As for ARP, there is one flow per
// gateway, which matches the request, and one for all, which turns it into a reply. Pings are accepted from
// local ports only: the sender's node answers.
//
// Other traffic to the gateway's address is routed, finds no endpoint there, and is dropped.
//
// Endpoints behind a router may have moved there from this node. A host that has communicated with one of them
// still sends to its own MAC for up to a minute, and is routed as well.
type gateway struct{ mac [6]byte }

// freshTTL is the hop limit of a packet that the gateway itself sends.
const freshTTL = 64

func (g gateway) base(w *Wants) {
	w.flow(at(tableRouter, priorityOther, openflow.EthDst(g.mac)).drop(reasonNoGateway))
	for _, f := range []family{ipv4(), ipv6()} {
		w.flow(at(tableReply, priorityExact, f.is(), f.isICMP(), f.echo).
			do(replyFrom(g.mac)...).
			do(swap(f.srcField, f.dstField)...).
			do(set(f.echoed), openflow.SetTTL{TTL: freshTTL}, regOut.set(outBack)).
			goTo(tableOutput))
	}
}

// gateways returns the addresses for which the switch routes.
func (n Network) gateways() []netip.Addr {
	if n.Mode.Bridged() {
		return nil
	}
	return addresses(n.Gateway, n.Gateway6)
}

func (g gateway) network(w *Wants, n Network) {
	for _, f := range []family{ipv4(), ipv6()} {
		has := func(a netip.Addr) bool { return familyOf(a).ethType == f.ethType }
		if !n.Mode.Bridged() && !slices.ContainsFunc(n.gateways(), has) { // services neither
			w.flow(at(tableRouter, priorityGuard, regNetwork.is(uint32(n.Tag)), openflow.EthDst(g.mac), f.is()).drop(reasonNoGateway))
		}
	}
	for _, a := range n.gateways() {
		f := familyOf(a)
		w.flow(
			at(tableRouter, priorityExact, regNetwork.is(uint32(n.Tag)), openflow.EthDst(g.mac), f.is()).
				do(regRouted.set(1)).goTo(tableDest),
			at(tableDest, priorityExcept, regRouted.is(1), regVRF.is(uint32(n.VRF)),
				f.is(), f.isICMP(), f.echo, f.dst(inet.Host(a))).goTo(tableAnswer))
	}
}

func (gateway) endpoint(w *Wants, e placed) {
	if e.behindRouter() {
		w.flow(at(tableRouter, priorityExact, regNetwork.is(uint32(e.Tag)), openflow.EthDst(e.MAC)).do(regRouted.set(1)).goTo(tableDest))
	}
}

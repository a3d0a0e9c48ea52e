package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// arp answers ARP requests in the asker's own switch.
//
// Whoever can be asked for is in the store, so no request ever leaves the
// node. There is one flow per target, which puts the target's MAC where the
// answer comes from, and one flow for all, in table REPLY, which turns the
// request round. An endpoint is answered with its own MAC, wherever it runs;
// a gateway with the anycast MAC. Targets are those of the asker's network:
// not of another tenant with the same subnet, and not of another network,
// which is reached through the gateway.
//
// An endpoint that asks for its own address either announces itself
// (gratuitous ARP) or probes whether the address is free. Silence is the right
// answer to both, unless the network goes on behind an uplink. A probe for somebody else's address is answered: it is taken.
type arp struct{ gateway [6]byte }

func isARP() openflow.FieldMatch { return openflow.EthType(openflow.EthTypeARP) }

func (arp) base(w *Wants) {
	const reply = 2
	w.flow(at(tableReply, priorityExact, isARP(), openflow.ARPOp(1)).do(
		set(openflow.ARPOp(reply)),
		openflow.MoveAll(openflow.FieldARPSha, openflow.FieldARPTha),
		openflow.MoveAll(openflow.FieldEthSrc, openflow.FieldARPSha),
	).do(swap(openflow.FieldARPSpa, openflow.FieldARPTpa)...).
		do(regOut.set(outBack)).goTo(tableOutput))
}

func (a arp) network(w *Wants, n Network) {
	for _, gateway := range n.gateways() {
		if gateway.Is4() {
			w.flow(answerARP(n.Tag, gateway, a.gateway))
		}
	}
}

func (a arp) endpoint(w *Wants, e placed) {
	if !e.IPv4.IsValid() || e.Mode == BridgedFlood {
		return
	}
	w.flow(answerARP(e.Tag, e.IPv4, e.reachedAt(a.gateway)))
	if e.local() {
		w.flow(at(tableNeighbour, priorityExcept, openflow.InPort(e.port),
			isARP(), openflow.ARPTpa(inet.Host(e.IPv4))).aboutItself(e))
	}
}

// reachedAt is the MAC that others of the network send to: the endpoint's own, or the
// gateway's if there is a router outside on the way.
func (e placed) reachedAt(gateway [6]byte) [6]byte {
	if e.behindRouter() {
		return gateway
	}
	return e.MAC
}

// aboutItself ends what an endpoint asks about its own address. Behind an uplink
// are others who should hear it: switches that learn, and who has the address, too.
func (b flowBuilder) aboutItself(e placed) openflow.Flow {
	if e.Encap == VLAN && e.Mode.Bridged() {
		return b.goTo(tableDest)
	}
	return b.drop(reasonOwnAddress)
}

// answerARP lets the owner of an address answer requests for it in a network.
func answerARP(network uint16, owner netip.Addr, mac [6]byte) openflow.Flow {
	return at(tableNeighbour, priorityExact, isARP(), regNetwork.is(uint32(network)),
		openflow.ARPTpa(inet.Host(owner)), openflow.ARPOp(1)).
		do(replyFrom(mac)...).goTo(tableAnswer)
}

// replyFrom addresses a frame back to its sender, from another MAC.
func replyFrom(mac [6]byte) []openflow.Action {
	return []openflow.Action{
		openflow.MoveAll(openflow.FieldEthSrc, openflow.FieldEthDst),
		set(openflow.EthSrc(mac)),
	}
}

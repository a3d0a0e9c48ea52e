package pipeline

import (
	"encoding/binary"
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// arp answers ARP requests in the sender's own switch.
//
// All possible targets are in the store, so no request ever leaves the node. There is one flow per target,
// which makes the target's MAC the source of the answer, and one flow for all, in table REPLY, which turns the
// request into a reply. For an endpoint the answer is its own MAC, wherever it runs; for a gateway the anycast
// MAC. Targets are those of the sender's network: not of another tenant with the same subnet, and not of
// another network, which is reached through the gateway.
//
// A network may have a range of its subnet only, and other networks of the tenant the rest. Its endpoints take all of
// the subnet for the same link, so requests for the rest are answered with the gateway's MAC, whoever is there.
//
// An endpoint that requests its own address either announces itself (gratuitous ARP) or probes whether the
// address is free. No answer is right for both, unless the network continues behind an uplink. A probe for
// another endpoint's address is answered: it is taken.
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
			for _, rest := range n.rest() {
				w.flow(at(tableNeighbour, priorityOther, isARP(), regNetwork.is(uint32(n.Tag)), openflow.ARPTpa(rest), openflow.ARPOp(1)).
					do(replyFrom(a.gateway)...).goTo(tableAnswer))
			}
		}
	}
}

// rest returns the part of the IPv4 subnet that endpoints of the network cannot have addresses of.
func (n Network) rest() []netip.Prefix {
	if !n.First.IsValid() || !n.Last.IsValid() {
		return nil
	}
	return beside(n.Subnet, n.First, n.Last)
}

// beside returns a prefix without a range of its addresses, as few prefixes.
func beside(p netip.Prefix, first, last netip.Addr) []netip.Prefix {
	end := lastOf(p)
	switch {
	case end.Less(first) || last.Less(p.Addr()):
		return []netip.Prefix{p}
	case !p.Addr().Less(first) && !last.Less(end):
		return nil
	}
	low := netip.PrefixFrom(p.Addr(), p.Bits()+1)
	high := netip.PrefixFrom(lastOf(low).Next(), p.Bits()+1)
	return append(beside(low, first, last), beside(high, first, last)...)
}

// lastOf returns the last address of an IPv4 prefix.
func lastOf(p netip.Prefix) netip.Addr {
	a := p.Addr().As4()
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])|^uint32(0)>>p.Bits())
	return netip.AddrFrom4(a)
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

// reachedAt returns the MAC that other endpoints of the network send to: the endpoint's own, or the gateway's
// if an external router is on the way.
func (e placed) reachedAt(gateway [6]byte) [6]byte {
	if e.behindRouter() {
		return gateway
	}
	return e.MAC
}

// aboutItself ends a flow for an endpoint's request for its own address. Behind an uplink other hosts should
// receive it: switches that learn, and a host that has the address, too.
func (b flowBuilder) aboutItself(e placed) openflow.Flow {
	if e.Encap == VLAN && e.Mode.Bridged() {
		return b.goTo(tableDest)
	}
	return b.drop(reasonOwnAddress)
}

// answerARP answers requests for an address in a network with its owner's MAC.
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

package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// nd answers IPv6 neighbour solicitations in the sender's own switch, as arp does for IPv4.
//
// There is one flow per target, which makes its MAC the source of the answer. Turning the solicitation into an
// advertisement takes two tables, as the target's link-layer address may only be written in a flow that matches
// advertisements. REPLY has one flow for all; ND_REPLY has four:
//
//	sent from an address     unicast, "solicited", with the target's MAC
//	sent from ::             to all nodes: it is a probe whether the address is
//	                         free (DAD), and the answer is that it is not
//
// each for a gateway ("router") and for an endpoint. The guard has limited the rate of a port's solicitations. A
// solicitation without a link-layer option yields an advertisement without one: an option can be rewritten, not
// added.
//
// An endpoint that probes for its own address gets no answer, as with ARP.
type nd struct{ gateway [6]byte }

// Types of ICMPv6 messages that only routers send.
const (
	ndRouterAdvert uint8 = 134
	ndRedirect     uint8 = 137
)

// Flags of an advertisement, in the word behind its checksum.
const (
	flagRouter    uint32 = 1 << 31
	flagSolicited uint32 = 1 << 30
	flagOverride  uint32 = 1 << 29
)

// targetOption is the type of the option that carries the target's MAC.
const targetOption = 2

// All IPv6 nodes of a link.
var (
	allNodes    = netip.MustParseAddr("ff02::1")
	allNodesMAC = [6]byte{0x33, 0x33, 0x00, 0x00, 0x00, 0x01}
)

// icmpv6 matches ICMPv6 messages of a type.
func icmpv6(kind uint8, more ...openflow.FieldMatch) openflow.Match {
	return append(openflow.Match{
		openflow.EthType(openflow.EthTypeIPv6), openflow.IPProto(openflow.ProtoICMPv6), openflow.ICMPv6Type(kind),
	}, more...)
}

func (nd) base(w *Wants) {
	w.flow(at(tableReply, priorityExact, icmpv6(openflow.NDSolicit)...).do(
		openflow.MoveAll(openflow.FieldIPv6Src, openflow.FieldIPv6Dst),
		openflow.MoveAll(openflow.FieldNDTarget, openflow.FieldIPv6Src),
		set(openflow.ICMPv6Type(openflow.NDAdvert)),
		regOut.set(outBack),
	).goTo(tableNDReply))
	for _, who := range []struct {
		isRouter uint32
		flags    uint32
	}{{0, flagOverride}, {1, flagOverride | flagRouter}} {
		advert := icmpv6(openflow.NDAdvert, openflow.ICMPv6Code(0), regIsRouter.is(who.isRouter))
		w.flow(
			at(tableNDReply, priorityExact, advert...).do(
				set(openflow.NDReserved(who.flags|flagSolicited)),
				set(openflow.NDOptionsType(targetOption)),
				openflow.MoveAll(openflow.FieldEthSrc, openflow.FieldNDTLL),
			).goTo(tableOutput),
			at(tableNDReply, priorityExcept, append(advert, openflow.IPv6Dst(inet.Host(netip.IPv6Unspecified())))...).do(
				set(openflow.IPv6Dst(inet.Host(allNodes))),
				set(openflow.EthDst(allNodesMAC)),
				set(openflow.NDReserved(who.flags)),
			).goTo(tableOutput))
	}
}

func (f nd) network(w *Wants, n Network) {
	for _, gateway := range n.gateways() {
		if gateway.Is6() {
			w.flow(answerND(n.Tag, gateway, f.gateway, regIsRouter.set(1)))
		}
	}
}

func (f nd) endpoint(w *Wants, e placed) {
	if !e.IPv6.IsValid() || e.Mode == BridgedFlood {
		return
	}
	w.flow(answerND(e.Tag, e.IPv6, e.reachedAt(f.gateway)))
	if e.local() {
		w.flow(at(tableNeighbour, priorityExcept,
			icmpv6(openflow.NDSolicit, openflow.InPort(e.port), openflow.NDTarget(e.IPv6))...).aboutItself(e))
	}
}

// answerND answers solicitations for an address in a network with its owner's MAC.
func answerND(network uint16, owner netip.Addr, mac [6]byte, more ...openflow.Action) openflow.Flow {
	return at(tableNeighbour, priorityExact, icmpv6(openflow.NDSolicit, regNetwork.is(uint32(network)), openflow.NDTarget(owner))...).
		do(more...).do(replyFrom(mac)...).goTo(tableReply)
}

package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// nd answers IPv6 neighbour solicitations in the asker's own switch, as arp
// does for IPv4.
//
// It takes two tables because the target's link-layer address may only be
// written in a flow that matches advertisements. The first, with one flow per
// target, makes the solicitation an advertisement of the target. The second,
// with four flows for all, completes it:
//
//	asked from an address    unicast, "solicited", with the target's MAC
//	asked from ::            to all nodes: it is a probe whether the address is
//	                         free (DAD), and the answer is that it is not
//
// each for a gateway ("router") and for an endpoint. A solicitation that
// carries no link-layer option yields an advertisement without one: an option
// can be rewritten, not added.
//
// An endpoint that probes for its own address gets silence.
type nd struct {
	silent
	gateway [6]byte
}

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

// solicitation matches neighbour solicitations.
func solicitation() openflow.Match {
	return openflow.Match{
		openflow.EthType(openflow.EthTypeIPv6), openflow.IPProto(openflow.ProtoICMPv6),
		openflow.ICMPv6Type(openflow.NDSolicit),
	}
}

// advertisement matches neighbour advertisements.
func advertisement(more ...openflow.FieldMatch) openflow.Match {
	return append(openflow.Match{
		openflow.EthType(openflow.EthTypeIPv6), openflow.IPProto(openflow.ProtoICMPv6),
		openflow.ICMPv6Type(openflow.NDAdvert), openflow.ICMPv6Code(0),
	}, more...)
}

func (nd) base() []openflow.Flow {
	var flows []openflow.Flow
	for _, who := range []struct {
		isRouter uint32
		flags    uint32
	}{{0, flagOverride}, {1, flagOverride | flagRouter}} {
		match := advertisement(regIsRouter.is(who.isRouter))
		flows = append(flows,
			at(tableNDReply, priorityExact, match...).do(
				set(openflow.NDReserved(who.flags|flagSolicited)),
				set(openflow.NDOptionsType(targetOption)),
				openflow.MoveAll(openflow.FieldEthSrc, openflow.FieldNDTLL),
			).output(openflow.PortInPort),
			at(tableNDReply, priorityExcept, append(match, openflow.IPv6Dst(openflow.Host(netip.IPv6Unspecified())))...).do(
				set(openflow.IPv6Dst(openflow.Host(allNodes))),
				set(openflow.EthDst(allNodesMAC)),
				set(openflow.NDReserved(who.flags)),
			).output(openflow.PortInPort))
	}
	return flows
}

func (f nd) network(n Network) []openflow.Flow {
	if !n.Gateway6.IsValid() {
		return nil
	}
	return []openflow.Flow{answerND(n.Tag, n.Gateway6, f.gateway, regIsRouter.set(1))}
}

func (nd) endpoint(e placed) []openflow.Flow {
	if !e.IPv6.IsValid() {
		return nil
	}
	flows := []openflow.Flow{answerND(e.Tag, e.IPv6, e.MAC)}
	if e.local() {
		own := append(solicitation(), openflow.InPort(e.port), openflow.NDTarget(e.IPv6))
		flows = append(flows, at(tableND, priorityExcept, own...).drop())
	}
	return flows
}

// answerND lets the owner of an address answer solicitations for it in a network.
func answerND(network uint16, owner netip.Addr, mac [6]byte, more ...openflow.Action) openflow.Flow {
	match := append(solicitation(), regNetwork.is(uint32(network)), openflow.NDTarget(owner))
	return at(tableND, priorityExact, match...).
		do(more...).
		do(replyFrom(mac)...).
		do(
			openflow.MoveAll(openflow.FieldIPv6Src, openflow.FieldIPv6Dst),
			openflow.MoveAll(openflow.FieldNDTarget, openflow.FieldIPv6Src),
			set(openflow.ICMPv6Type(openflow.NDAdvert)),
		).goTo(tableNDReply)
}

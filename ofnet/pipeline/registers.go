package pipeline

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// Register is a value of a packet that later tables use: a run of bits of one of the switch's sixteen
// registers. All are zero when a packet comes in.
type Register struct {
	Name  string
	Index int // reg0..reg15
	Ofs   uint16
	Bits  uint16
	Does  string
}

// The registers. Groups, VRFs and networks are numbered for the whole cluster,
// so that dumps of different nodes can be compared.
var (
	regOrigin   = Register{"ORIGIN", 0, 0, 3, "Where the packet came from: 1 a local port, 2 the tunnel or the uplink, 3 the name server, 4 the host, 5 the host, to a service."}
	regRouted   = Register{"ROUTED", 0, 3, 1, "The packet is for the gateway's MAC and is to be routed."}
	regIsRouter = Register{"IS_ROUTER", 0, 4, 1, "The neighbour that answers a solicitation is the gateway."}
	regFlooded  = Register{"FLOODED", 0, 5, 1, "In a bridged network: a copy for one member, or for the other nodes; or what has the MAC of its receiver, and not its address."}
	regTooBig   = Register{"TOO_BIG", 0, 6, 1, "The packet is larger than the MTU of the path to other nodes."}
	regAffinity = Register{"AFFINITY", 0, 7, 1, "A new connection to a service with session affinity: table AFFINITY was visited."}
	regSrcTiers = Register{"SRC_TIERS", 0, 8, 4, "What the tiers judge of the sender, if it is on this node; bits: 1 its egress, 2 policies isolate its egress, 4 its ingress, 8 policies isolate its ingress."}
	regDstTiers = Register{"DST_TIERS", 0, 12, 4, "The same of the receiver."}
	regTracked  = Register{"TRACKED", 0, 16, 1, "Connections of the sender or the receiver are tracked, and the packet has not been sent to conntrack yet."}
	regOuter    = Register{"OUTER", 0, 17, 1, "A client from outside, of a service that has other providers for such clients."}
	regEpoch    = Register{"EPOCH", 0, 18, 6, "1 plus the epoch modulo 63, at the time of classification; 0: there was no epoch."}
	regReason   = Register{"REASON", 0, 24, 8, "The reason why the packet is dropped."}
	regSrcGroup = Register{"SRC_GROUP", 1, 0, 32, "Endpoint group of the sender; 0: none, or unknown. The highest bit: the group's own rules are not applied again (*Tiers*)."}
	regDstGroup = Register{"DST_GROUP", 2, 0, 32, "The same of the receiver."}
	regVRF      = Register{"VRF", 3, 0, 16, "Routing domain, one per tenant."}
	regSrcClass = Register{"SRC_CLASS", 3, 16, 16, "Class of the sender, for the rules of tiers; 0: none."}
	regNetwork  = Register{"NETWORK", 4, 0, 16, "Network of ingress, by its tag: the sender's, or that of the VNI."}
	regDstNet   = Register{"DST_NETWORK", 4, 16, 16, "Network of the receiver; 0: there is no receiver."}
	regOut      = Register{"OUT", 5, 0, 32, "OpenFlow port of the output; 0: none."}
	regNextHop  = Register{"NEXT_HOP", 6, 0, 128, "Router outside to which the packet is sent; an IPv4 address is in the last register."}
	regDstClass = Register{"DST_CLASS", 10, 16, 16, "Class of the receiver."}
	regDstMAC   = Register{"DST_MAC", 10, 0, 48, "MAC of the receiver. Before it is set, the second register has the number of a service's port, and the first one what the tiers judge of a sender behind the tunnel or the uplink, if it floods; after its use, the port of a provider."}
	regScratch  = Register{"SCRATCH", 12, 0, 128, "An address while two are swapped, the provider of a client of a service, or the zone of the tiers."}
)

// Values of ORIGIN.
const (
	originLocal   = 1
	originTunnel  = 2
	originNames   = 3
	originHost    = 4
	originEntered = 5
)

// Values of OUT that are no port.
const (
	outBack  = openflow.PortInPort // back where the packet came from
	outPeers = openflow.PortFlood  // to the other nodes with members of the network
	outAsked = openflow.PortNormal // into the tunnel, for a request of the agent to another node (echo.go)

	outExpired = openflow.PortTable // none: its hop limit is used up (expired.go)
)

// Registers lists them for dumps and documentation.
func Registers() []Register {
	return []Register{
		regOrigin, regRouted, regIsRouter, regFlooded, regTooBig, regAffinity, regSrcTiers, regDstTiers,
		regTracked, regOuter, regEpoch, regReason, regSrcGroup, regDstGroup, regVRF, regSrcClass,
		regNetwork, regDstNet, regOut, regNextHop, regDstClass, regDstMAC, regScratch,
	}
}

// is matches a value of the register.
func (r Register) is(v uint32) openflow.FieldMatch {
	mask := uint32(1<<r.Bits - 1)
	return openflow.Reg(r.Index, v<<r.Ofs, mask<<r.Ofs)
}

// both matches two values in one register of the switch.
func both(a, b openflow.FieldMatch) openflow.FieldMatch {
	a.Value.Lo, a.Mask.Lo = a.Value.Lo|b.Value.Lo, a.Mask.Lo|b.Mask.Lo
	return a
}

// united joins matches on different bits of one register of the switch, which accepts a field only once.
func united(match openflow.Match) openflow.Match {
	for i := 1; i < len(match); i++ {
		m := match[i]
		at := slices.IndexFunc(match[:i], func(before openflow.FieldMatch) bool {
			return before.Field == m.Field && isRegister(m.Field) && before.Mask.Lo&m.Mask.Lo == 0
		})
		if at < 0 {
			continue // alone, or the switch refuses it
		}
		match = slices.Delete(slices.Clone(match), i, i+1)
		match[at] = both(match[at], m)
		i--
	}
	return match
}

func isRegister(f openflow.Field) bool {
	return f >= openflow.FieldReg(0) && f <= openflow.FieldReg(15)
}

// of returns the value of the register in a packet's fields as the switch sends them.
func (r Register) of(m openflow.Match) uint32 {
	all, _ := m.Get(openflow.FieldReg(r.Index))
	return uint32(all.Value.Lo>>r.Ofs) & uint32(1<<r.Bits-1)
}

// set writes a value to the register.
func (r Register) set(v uint32) openflow.Action {
	if r.Bits == 32 {
		return set(r.is(v))
	}
	return openflow.LoadReg(r.Index, r.Ofs, r.Bits, v)
}

// words matches an address in the four registers of one; an IPv4 address is in the last, and the others are
// zero, with which no IPv6 address of a host begins.
func (r Register) words(a netip.Addr) (words openflow.Match) {
	raw := a.As16()
	if a.Is4() {
		clear(raw[:12])
	}
	for i := range 4 {
		words = append(words, openflow.Reg(r.Index+i, binary.BigEndian.Uint32(raw[4*i:]), ^uint32(0)))
	}
	return words
}

// keepMAC writes a MAC to DST_MAC, and sendToMAC addresses the packet to it.
func keepMAC(a [6]byte) openflow.Action {
	return openflow.Load{Field: openflow.FieldXReg(regDstMAC.Index / 2), Bits: 48, Value: macNumber(a)}
}

// keptMAC matches packets with a MAC in DST_MAC.
func keptMAC(a [6]byte) openflow.Match {
	n := macNumber(a)
	return openflow.Match{
		openflow.Reg(regDstMAC.Index, uint32(n>>32), 1<<16-1), openflow.Reg(regDstMAC.Index+1, uint32(n), ^uint32(0)),
	}
}

func macNumber(a [6]byte) (n uint64) {
	for _, b := range a {
		n = n<<8 | uint64(b)
	}
	return n
}

func sendToMAC() openflow.Action {
	return openflow.Move{Src: openflow.FieldXReg(regDstMAC.Index / 2), Dst: openflow.FieldEthDst, Bits: 48}
}

// swap exchanges two fields of an address's width by SCRATCH.
func swap(a, b openflow.Field) []openflow.Action {
	if a.Bits() <= 32 {
		scratch := openflow.FieldReg(regScratch.Index)
		return []openflow.Action{openflow.MoveAll(a, scratch), openflow.MoveAll(b, a), openflow.MoveAll(scratch, b)}
	}
	// Wider than a double register: half by half.
	const half = 64
	high, low := openflow.FieldXReg(regScratch.Index/2), openflow.FieldXReg(regScratch.Index/2+1)
	return []openflow.Action{
		openflow.Move{Src: a, SrcOfs: half, Dst: high, Bits: half},
		openflow.Move{Src: a, Dst: low, Bits: half},
		openflow.MoveAll(b, a),
		openflow.Move{Src: high, Dst: b, DstOfs: half, Bits: half},
		openflow.Move{Src: low, Dst: b, Bits: half},
	}
}

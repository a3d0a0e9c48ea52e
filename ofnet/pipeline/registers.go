package pipeline

import "github.com/contiv/netplugin/ofnet/openflow"

// Register is what a packet remembers from table to table: a run of bits of
// one of the switch's sixteen registers. All are zero when a packet comes in.
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
	regFromTunnel = Register{"FROM_TUNNEL", 0, 0, 1, "The packet came out of the tunnel and must not go back into it."}
	regIsRouter   = Register{"IS_ROUTER", 0, 1, 1, "The neighbour that answers a solicitation is the gateway."}
	regSrcGroup   = Register{"SRC_GROUP", 1, 0, 32, "Endpoint group of the sender, 16 bits; 0: none, or unknown."}
	regDstGroup   = Register{"DST_GROUP", 2, 0, 32, "Endpoint group of the receiver, 16 bits; 0: none, or unknown."}
	regVRF        = Register{"VRF", 3, 0, 32, "Routing domain, one per tenant, 16 bits."}
	regNetwork    = Register{"NETWORK", 4, 0, 32, "Network the packet is in, by its tag: the sender's, after routing the receiver's."}
	regCTZone     = Register{"CT_ZONE", 5, 0, 32, "Zone of the connection tracker (reserved for services)."}
	regScratch    = Register{"SCRATCH", 12, 0, 128, "Registers 12 to 15 hold an address while two are swapped."}
)

// Registers lists them for dumps and documentation.
func Registers() []Register {
	return []Register{regFromTunnel, regIsRouter, regSrcGroup, regDstGroup, regVRF, regNetwork, regCTZone, regScratch}
}

// is matches a value of the register.
func (r Register) is(v uint32) openflow.FieldMatch {
	mask := uint32(1<<r.Bits - 1)
	return openflow.Reg(r.Index, v<<r.Ofs, mask<<r.Ofs)
}

// set writes a value to the register.
func (r Register) set(v uint32) openflow.Action {
	if r.Bits == 32 {
		return set(r.is(v))
	}
	return openflow.LoadReg(r.Index, r.Ofs, r.Bits, v)
}

// swap exchanges two fields of an address's width with the help of SCRATCH.
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

package openflow

import "slices"

// experimenterONF is the id of the Open Networking Foundation.
const experimenterONF = 0x4f4e4600

const matchTypeOXM = 1

// match appends an ofp_match: the fields, padded; the length excludes padding.
func (e *encoder) match(m Match) { e.matchOf(Flow{Match: m}) }

// matchOf appends the match of a flow.
func (e *encoder) matchOf(f Flow) {
	if err := f.Match.Canonical().check(); err != nil && f.rawMatch() == nil {
		e.fail("%w", err)
		return
	}
	start := len(e.b)
	e.u16(matchTypeOXM)
	e.u16(0)
	e.matchFields(f)
	e.length(start+2, start)
	e.pad8(start)
}

// matchFields appends the fields of a flow's match.
func (e *encoder) matchFields(f Flow) {
	if raw := f.rawMatch(); raw != nil {
		e.raw(raw)
		return
	}
	var room [16]FieldMatch // large enough for most matches
	ordered := append(room[:0], f.Match.Canonical()...)
	slices.SortFunc(ordered, func(a, b FieldMatch) int { return int(wireRank[a.Field]) - int(wireRank[b.Field]) })
	for _, fm := range ordered {
		e.field(fm)
	}
}

// wireOrder is the order in which Open vSwitch reports the fields of a match. It accepts any order in
// which fields follow their prerequisites; with this one, the bytes read equal the bytes written.
var wireOrder = [...]Field{
	FieldConjID, FieldInPort,
	FieldEthSrc, FieldEthDst, FieldEthType, FieldVLANVID, FieldVLANPCP,
	FieldIPv4Src, FieldIPv4Dst, FieldIPv6Src, FieldIPv6Dst,
	FieldIPFrag, FieldIPDSCP, FieldIPECN, FieldIPTTL, FieldIPv6Label, FieldIPProto,
	FieldTCPSrc, FieldTCPDst, FieldTCPFlags, FieldUDPSrc, FieldUDPDst, FieldSCTPSrc, FieldSCTPDst,
	FieldICMPType, FieldICMPCode, FieldICMPv6Type, FieldICMPv6Code,
	FieldNDTarget, FieldNDReserved, FieldNDOptionsType, FieldNDSLL, FieldNDTLL,
	FieldARPOp, FieldARPSpa, FieldARPTpa, FieldARPSha, FieldARPTha,
	FieldTunnelID, FieldTunSrc, FieldTunDst, FieldTunIPv6Src, FieldTunIPv6Dst,
	FieldReg0, FieldReg1, FieldReg2, FieldReg3, FieldReg4, FieldReg5, FieldReg6, FieldReg7,
	FieldReg8, FieldReg9, FieldReg10, FieldReg11, FieldReg12, FieldReg13, FieldReg14, FieldReg15,
	FieldPktMark, FieldCTState, FieldCTZone, FieldCTMark, FieldCTLabel,
	FieldCTNwSrc, FieldCTNwDst, FieldCTIPv6Src, FieldCTIPv6Dst, FieldCTNwProto, FieldCTTpSrc, FieldCTTpDst,
	FieldMetadata,
}

var wireRank = rankFields()

func rankFields() (rank [fieldCount]uint8) {
	for i, f := range wireOrder {
		rank[f] = uint8(i)
	}
	return rank
}

// fieldHeader appends the header of a field, with the number of bytes of its value and mask.
func (e *encoder) fieldHeader(f Field, withMask bool) {
	header, size := f.info().oxm, uint32(f.size())
	if withMask {
		size *= 2
		header |= 1 << 8
	}
	if header>>16 == classExp {
		e.u32(header | (size + 4))
		e.u32(experimenterONF)
		return
	}
	e.u32(header | size)
}

// field appends a field with its value and, unless it is all ones, its mask.
func (e *encoder) field(fm FieldMatch) {
	if !fm.Field.known() {
		e.fail("not a field (a register number or address family out of range?)")
		return
	}
	exact := fm.IsExact()
	e.fieldHeader(fm.Field, !exact)
	e.value(fm.Field, fm.Value)
	if !exact {
		e.value(fm.Field, fm.Mask)
	}
}

func (e *encoder) value(f Field, v Value) {
	b := v.bytes16()
	e.raw(b[16-f.size():])
}

// match reads an ofp_match with its padding.
func (d *decoder) match() Match {
	list := d.matchBody()
	m := list.fieldList()
	d.join(list, "match")
	return m
}

// matchBody returns a decoder for the fields of an ofp_match, and skips its padding.
func (d *decoder) matchBody() *decoder {
	if t := d.u16(); t != matchTypeOXM && d.err == nil {
		d.fail("match: type %d is not known", t)
	}
	n := int(d.u16())
	if n < 4 {
		d.fail("match: length %d is too short", n)
		return &decoder{err: d.err}
	}
	fields := d.sub(n - 4)
	d.skip((8 - n%8) % 8)
	return fields
}

// fieldList reads fields to the end.
func (list *decoder) fieldList() Match {
	var m Match
	var seen [fieldCount]bool
	for list.more() {
		fm := list.field()
		if list.err == nil && seen[fm.Field] {
			list.fail("%s occurs twice", fm.Field)
		}
		if list.err == nil {
			seen[fm.Field] = true
			m = append(m, fm)
		}
	}
	return m.Canonical()
}

// knownFields reads all fields and skips those that are not in the table, so that an unknown field
// does not lose the packet.
func (list *decoder) knownFields() Match {
	var m Match
	for list.err == nil && len(list.b) >= 4 {
		one := list.sub(4 + int(list.b[3]))
		if fm := one.field(); one.err == nil && !m.has(fm.Field) {
			m = append(m, fm)
		}
	}
	return m.Canonical()
}

// fieldHeader reads the header of a field and returns the number of bytes that follow, and whether
// they include a mask.
func (d *decoder) fieldHeader() (f Field, n int, withMask bool) {
	h := d.u32()
	n, withMask = int(h&0xff), h&(1<<8) != 0
	if h>>16 == classExp {
		if id := d.u32(); d.err == nil && (id != experimenterONF || n < 4) {
			d.fail("field %#x of experimenter %#x is not known", h>>9, id)
		}
		n -= 4
	}
	f, ok := fieldOf[h&^0x1ff]
	if !ok && d.err == nil {
		d.fail("field %d of class %#x is not known", h>>9&0x7f, h>>16)
	}
	if want := f.size() * maskFactor(withMask); ok && n != want {
		d.fail("%s: %d bytes where %d are needed", f, n, want)
	}
	return f, n, withMask
}

func maskFactor(withMask bool) int {
	if withMask {
		return 2
	}
	return 1
}

// field reads a field with its value.
func (d *decoder) field() FieldMatch {
	f, _, withMask := d.fieldHeader()
	if d.err != nil {
		return FieldMatch{}
	}
	v, mask := valueOf(d.take(f.size())), ones(f.Bits())
	if withMask {
		mask = valueOf(d.take(f.size()))
	}
	if excess := v.And(mask); excess != excess.And(ones(f.Bits())) {
		d.fail("%s: value %s exceeds %d bits", f, hex(v), f.Bits())
	}
	return Masked(f, v, mask)
}

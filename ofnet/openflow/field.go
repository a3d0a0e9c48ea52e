package openflow

import (
	"encoding/binary"
	"math/bits"
)

// Field is a match field: a part of a packet or of its pipeline state that can be matched, set, loaded
// and moved. The fields are declared in the table of fields.go.
type Field uint8

// Value is the value of a field, or a mask for it: an unsigned number of up to
// 128 bits. Hi is zero for fields of 64 bits and less.
type Value struct{ Hi, Lo uint64 }

// And returns the bits set in both.
func (v Value) And(m Value) Value { return Value{v.Hi & m.Hi, v.Lo & m.Lo} }

// IsZero reports whether no bit is set.
func (v Value) IsZero() bool { return v.Hi == 0 && v.Lo == 0 }

// ones returns a value whose n lowest bits are set.
func ones(n int) Value {
	switch {
	case n <= 0:
		return Value{}
	case n >= 128:
		return Value{^uint64(0), ^uint64(0)}
	case n > 64:
		return Value{^uint64(0) >> (128 - n), ^uint64(0)}
	default:
		return Value{0, ^uint64(0) >> (64 - n)}
	}
}

// prefixLen returns the number of leading ones of a mask of the given width,
// and whether nothing but zeros follows them.
func (v Value) prefixLen(width int) (int, bool) {
	inverted := Value{^v.Hi, ^v.Lo}.And(ones(width))
	zeros := bits.Len64(inverted.Lo)
	if inverted.Hi != 0 {
		zeros = 64 + bits.Len64(inverted.Hi)
	}
	return width - zeros, inverted == ones(zeros)
}

// prefixMask is the inverse of prefixLen.
func prefixMask(length, width int) Value {
	all, host := ones(width), ones(width-length)
	return Value{all.Hi &^ host.Hi, all.Lo &^ host.Lo}
}

// bytes16 returns the value in network byte order.
func (v Value) bytes16() [16]byte {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], v.Hi)
	binary.BigEndian.PutUint64(b[8:], v.Lo)
	return b
}

// valueOf reads a value from at most 16 bytes in network byte order.
func valueOf(b []byte) Value {
	var full [16]byte
	copy(full[16-len(b):], b)
	return Value{binary.BigEndian.Uint64(full[:8]), binary.BigEndian.Uint64(full[8:])}
}

// number returns the value of an integer.
func number(n uint64) Value { return Value{Lo: n} }

// fieldInfo is a row of the field table.
type fieldInfo struct {
	name  string // in set_field, as ovs-fields(7) calls it
	match string // in a match, as ovs-ofctl prints it; "" if the same as name
	nxm   string // in load, move and output:field
	oxm   uint32 // header that is sent, without mask bit and length
	alias uint32 // alternative header of Nicira; 0 if none
	bits  uint16
	need  prerequisite
	print formatter
}

// known reports whether the field is in the table.
func (f Field) known() bool { return f > 0 && int(f) < len(fields) && fields[f].bits > 0 }

func (f Field) info() *fieldInfo {
	if !f.known() {
		return &fieldInfo{name: "unknown", nxm: "unknown", print: hexadecimal}
	}
	return &fields[f]
}

// Bits returns the width of the field.
func (f Field) Bits() int { return int(f.info().bits) }

// size returns the number of bytes of the field on the wire; 3 is rounded up to 4.
func (f Field) size() int {
	if n := (f.Bits() + 7) / 8; n != 3 {
		return n
	}
	return 4
}

// String returns the name of the field in set_field, such as "eth_src".
func (f Field) String() string { return f.info().name }

// FieldReg returns register n, 0 to 15: 32 bits that last while the packet is in the pipeline.
func FieldReg(n int) Field { return numbered(FieldReg0, n, 16) }

// FieldXReg returns double register n, 0 to 7: registers 2n (high half) and
// 2n+1 seen as one number of 64 bits.
func FieldXReg(n int) Field { return numbered(FieldXReg0, n, 8) }

// numbered returns the n-th of count fields, or 0, which encoders refuse, if there is no such field.
func numbered(first Field, n, count int) Field {
	if n < 0 || n >= count {
		return 0
	}
	return first + Field(n)
}

// Subfield is a range of bits of a field.
type Subfield struct {
	Field Field
	Ofs   uint16 // lowest bit
	Bits  uint16
}

// Whole returns the range of all bits of a field.
func Whole(f Field) Subfield { return Subfield{Field: f, Bits: uint16(f.movable())} }

// movable returns the number of bits that can be loaded and moved. The bit of vlan_vid that marks a
// tag as present is not one of them.
func (f Field) movable() int {
	if f == FieldVLANVID {
		return 12
	}
	return f.Bits()
}

// valid reports whether the range lies within the field.
func (s Subfield) valid() bool {
	return s.Field.known() && s.Bits > 0 && int(s.Ofs)+int(s.Bits) <= s.Field.movable()
}

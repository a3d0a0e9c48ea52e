package openflow

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/utils/inet"
)

// FieldMatch is a field with a value. Bits that are zero in Mask are zero in Value and match anything.
// A Mask of all ones is an exact match (see Exact).
type FieldMatch struct {
	Field Field
	Value Value
	Mask  Value
}

// Match is a condition on packets: all of its fields must match. No field may occur twice. The order
// is irrelevant: a match is sent and printed in the order of the field table.
type Match []FieldMatch

// VLANPresent is the bit of vlan_vid that marks a tag as present.
const VLANPresent = 0x1000

// Exact matches one value of a field.
func Exact(f Field, v Value) FieldMatch {
	all := ones(f.Bits())
	return FieldMatch{Field: f, Value: v.And(all), Mask: all}
}

// Masked matches the bits of a field that are set in the mask.
func Masked(f Field, v, mask Value) FieldMatch {
	mask = mask.And(ones(f.Bits()))
	return FieldMatch{Field: f, Value: v.And(mask), Mask: mask}
}

// IsExact reports whether the mask has all bits of the field.
func (fm FieldMatch) IsExact() bool { return fm.Mask == ones(fm.Field.Bits()) }

func exactly(f Field, n uint64) FieldMatch       { return Exact(f, number(n)) }
func masking(f Field, n, mask uint64) FieldMatch { return Masked(f, number(n), number(mask)) }
func mac(f Field, a [6]byte) FieldMatch          { return Exact(f, valueOf(a[:])) }

// address matches a prefix. For a prefix of the other IP family, or the zero prefix, it returns a
// match with an unknown field, which the encoder refuses.
func address(f Field, p netip.Prefix) FieldMatch {
	if !p.IsValid() || p.Addr().BitLen() != f.Bits() {
		return FieldMatch{}
	}
	return Masked(f, valueOf(p.Addr().AsSlice()), prefixMask(p.Bits(), f.Bits()))
}

// The constructors, one per field.

func InPort(port uint32) FieldMatch { return exactly(FieldInPort, uint64(port)) }
func EthType(t uint16) FieldMatch   { return exactly(FieldEthType, uint64(t)) }
func EthSrc(a [6]byte) FieldMatch   { return mac(FieldEthSrc, a) }
func EthDst(a [6]byte) FieldMatch   { return mac(FieldEthDst, a) }
func EthSrcMasked(a, mask [6]byte) FieldMatch {
	return Masked(FieldEthSrc, valueOf(a[:]), valueOf(mask[:]))
}
func EthDstMasked(a, mask [6]byte) FieldMatch {
	return Masked(FieldEthDst, valueOf(a[:]), valueOf(mask[:]))
}
func VLANPCP(pcp uint8) FieldMatch { return exactly(FieldVLANPCP, uint64(pcp)) }
func IPProto(p uint8) FieldMatch   { return exactly(FieldIPProto, uint64(p)) }
func IPDSCP(dscp uint8) FieldMatch { return exactly(FieldIPDSCP, uint64(dscp)) }

// IPFragment matches fragments, the first and later ones.
func IPFragment() FieldMatch { return masking(FieldIPFrag, 1, 1) }

// IPWhole matches packets that are not fragments.
func IPWhole() FieldMatch { return masking(FieldIPFrag, 0, 3) }

// IPFirstFragment and IPLaterFragment match first fragments and all later ones.
func IPFirstFragment() FieldMatch       { return masking(FieldIPFrag, 1, 3) }
func IPLaterFragment() FieldMatch       { return masking(FieldIPFrag, 3, 3) }
func IPTTL(ttl uint8) FieldMatch        { return exactly(FieldIPTTL, uint64(ttl)) }
func IPv4Src(p netip.Prefix) FieldMatch { return address(FieldIPv4Src, p) }
func IPv4Dst(p netip.Prefix) FieldMatch { return address(FieldIPv4Dst, p) }
func IPv6Src(p netip.Prefix) FieldMatch { return address(FieldIPv6Src, p) }
func IPv6Dst(p netip.Prefix) FieldMatch { return address(FieldIPv6Dst, p) }
func TCPSrc(port uint16) FieldMatch     { return exactly(FieldTCPSrc, uint64(port)) }
func TCPDst(port uint16) FieldMatch     { return exactly(FieldTCPDst, uint64(port)) }
func TCPDstMasked(port, mask uint16) FieldMatch {
	return masking(FieldTCPDst, uint64(port), uint64(mask))
}
func TCPFlags(flags, mask uint16) FieldMatch {
	return masking(FieldTCPFlags, uint64(flags), uint64(mask))
}
func UDPSrc(port uint16) FieldMatch { return exactly(FieldUDPSrc, uint64(port)) }
func UDPDst(port uint16) FieldMatch { return exactly(FieldUDPDst, uint64(port)) }
func UDPDstMasked(port, mask uint16) FieldMatch {
	return masking(FieldUDPDst, uint64(port), uint64(mask))
}
func SCTPSrc(port uint16) FieldMatch        { return exactly(FieldSCTPSrc, uint64(port)) }
func SCTPDst(port uint16) FieldMatch        { return exactly(FieldSCTPDst, uint64(port)) }
func ICMPType(t uint8) FieldMatch           { return exactly(FieldICMPType, uint64(t)) }
func ICMPv6Type(t uint8) FieldMatch         { return exactly(FieldICMPv6Type, uint64(t)) }
func ICMPv6Code(c uint8) FieldMatch         { return exactly(FieldICMPv6Code, uint64(c)) }
func NDTarget(a netip.Addr) FieldMatch      { return address(FieldNDTarget, inet.Host(a)) }
func NDReserved(n uint32) FieldMatch        { return exactly(FieldNDReserved, uint64(n)) }
func NDOptionsType(t uint8) FieldMatch      { return exactly(FieldNDOptionsType, uint64(t)) }
func ARPOp(op uint16) FieldMatch            { return exactly(FieldARPOp, uint64(op)) }
func ARPSpa(p netip.Prefix) FieldMatch      { return address(FieldARPSpa, p) }
func ARPTpa(p netip.Prefix) FieldMatch      { return address(FieldARPTpa, p) }
func ARPSha(a [6]byte) FieldMatch           { return mac(FieldARPSha, a) }
func TunnelID(vni uint64) FieldMatch        { return exactly(FieldTunnelID, vni) }
func Metadata(v, mask uint64) FieldMatch    { return masking(FieldMetadata, v, mask) }
func PktMark(v, mask uint32) FieldMatch     { return masking(FieldPktMark, uint64(v), uint64(mask)) }
func ConjID(id uint32) FieldMatch           { return exactly(FieldConjID, uint64(id)) }
func CTZone(zone uint16) FieldMatch         { return exactly(FieldCTZone, uint64(zone)) }
func CTMark(v, mask uint32) FieldMatch      { return masking(FieldCTMark, uint64(v), uint64(mask)) }
func CTLabel(v, mask Value) FieldMatch      { return Masked(FieldCTLabel, v, mask) }
func CTNwProto(p uint8) FieldMatch          { return exactly(FieldCTNwProto, uint64(p)) }
func CTTpSrc(port uint16) FieldMatch        { return exactly(FieldCTTpSrc, uint64(port)) }
func CTTpDst(port uint16) FieldMatch        { return exactly(FieldCTTpDst, uint64(port)) }
func Reg(n int, v, mask uint32) FieldMatch  { return masking(FieldReg(n), uint64(v), uint64(mask)) }
func XReg(n int, v, mask uint64) FieldMatch { return masking(FieldXReg(n), v, mask) }

// CTState matches the state of the tracked connection by the CT bits.
func CTState(v, mask uint32) FieldMatch {
	return masking(FieldCTState, uint64(v), uint64(mask&ctStateAll))
}

// Bits of ct_state.
const (
	CTNew uint32 = 1 << iota
	CTEst
	CTRel
	CTRpl
	CTInv
	CTTrk
	CTSNAT
	CTDNAT

	ctStateAll uint32 = 1<<iota - 1
)

// Bits of tcp_flags.
const (
	TCPFin uint16 = 1 << iota
	TCPSyn
	TCPRst
	TCPPsh
	TCPAck
	TCPUrg
)

// VLANVID matches packets with a tag of that VLAN.
func VLANVID(vid uint16) FieldMatch { return exactly(FieldVLANVID, uint64(vid|VLANPresent)) }

// VLANAny matches packets with any tag.
func VLANAny() FieldMatch { return masking(FieldVLANVID, VLANPresent, VLANPresent) }

// VLANNone matches packets without a tag.
func VLANNone() FieldMatch { return exactly(FieldVLANVID, 0) }

// TunSrc and TunDst select the field by the IP family of the prefix.
func TunSrc(p netip.Prefix) FieldMatch { return ofFamily(FieldTunSrc, FieldTunIPv6Src, p) }
func TunDst(p netip.Prefix) FieldMatch { return ofFamily(FieldTunDst, FieldTunIPv6Dst, p) }

// CTNwSrc and CTNwDst match the original direction of a tracked connection.
func CTNwSrc(p netip.Prefix) FieldMatch { return ofFamily(FieldCTNwSrc, FieldCTIPv6Src, p) }
func CTNwDst(p netip.Prefix) FieldMatch { return ofFamily(FieldCTNwDst, FieldCTIPv6Dst, p) }

func ofFamily(four, six Field, p netip.Prefix) FieldMatch {
	if p.Addr().Is4() {
		return address(four, p)
	}
	return address(six, p)
}

// Get returns the match on a field.
func (m Match) Get(f Field) (FieldMatch, bool) {
	for _, fm := range m {
		if fm.Field == f {
			return fm, true
		}
	}
	return FieldMatch{}, false
}

func (m Match) has(f Field) bool {
	_, ok := m.Get(f)
	return ok
}

// exact returns the low 64 bits of a field that is matched exactly.
func (m Match) exact(f Field) (uint64, bool) {
	fm, ok := m.Get(f)
	return fm.Value.Lo, ok && fm.IsExact()
}

// Canonical returns the match as the switch would report it: in the order of the field table, without
// fields that match anything, double registers split. Two matches are the same to the switch if their
// canonical forms are equal.
func (m Match) Canonical() Match {
	if m.isCanonical() {
		return m
	}
	out := make(Match, 0, len(m))
	for _, fm := range m {
		if fm.Mask.IsZero() && fm.Field != 0 {
			continue
		}
		if isDouble(fm.Field) {
			out = append(out, halves(fm)...)
			continue
		}
		out = append(out, fm)
	}
	slices.SortStableFunc(out, func(a, b FieldMatch) int { return int(a.Field) - int(b.Field) })
	return out
}

// isCanonical reports whether the match equals its canonical form.
func (m Match) isCanonical() bool {
	for i, fm := range m {
		if i > 0 && m[i-1].Field > fm.Field || fm.Mask.IsZero() || isDouble(fm.Field) {
			return false
		}
	}
	return true
}

func isDouble(f Field) bool { return f >= FieldXReg0 && f <= FieldXReg7 }

// halves splits the match on a double register into matches on its two registers.
func halves(fm FieldMatch) Match {
	high := FieldReg0 + 2*(fm.Field-FieldXReg0)
	var out Match
	if mask := fm.Mask.Lo >> 32; mask != 0 {
		out = append(out, masking(high, fm.Value.Lo>>32, mask))
	}
	if mask := fm.Mask.Lo & 0xffffffff; mask != 0 {
		out = append(out, masking(high+1, fm.Value.Lo, mask))
	}
	return out
}

// check returns an error for what the switch would refuse: a field that is unknown, repeated, or
// without its prerequisites. The match must be canonical.
func (m Match) check() error {
	for i, fm := range m {
		switch missing := fm.Field.info().need.missing(m); {
		case !fm.Field.known():
			return fmt.Errorf("match: field %d of %d is not a field (a register number or address family out of range?)", i+1, len(m))
		case i > 0 && m[i-1].Field == fm.Field:
			return fmt.Errorf("match: %s occurs twice", fm.Field)
		case missing != 0:
			return fmt.Errorf("match: %s requires a suitable %s", fm.Field, missing)
		}
	}
	return nil
}

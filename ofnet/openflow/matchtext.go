package openflow

import (
	"fmt"
	"strings"
)

// abbreviations are the names that ovs-ofctl prints instead of an eth_type, or of an eth_type with an
// ip_proto.
var abbreviations = map[[2]uint64]string{
	{EthTypeARP, noProto}:      "arp",
	{EthTypeRARP, noProto}:     "rarp",
	{EthTypeMPLS, noProto}:     "mpls",
	{0x8848, noProto}:          "mplsm",
	{EthTypeIPv4, noProto}:     "ip",
	{EthTypeIPv4, ProtoICMP}:   "icmp",
	{EthTypeIPv4, ProtoTCP}:    "tcp",
	{EthTypeIPv4, ProtoUDP}:    "udp",
	{EthTypeIPv4, ProtoSCTP}:   "sctp",
	{EthTypeIPv6, noProto}:     "ipv6",
	{EthTypeIPv6, ProtoICMPv6}: "icmp6",
	{EthTypeIPv6, ProtoTCP}:    "tcp6",
	{EthTypeIPv6, ProtoUDP}:    "udp6",
	{EthTypeIPv6, ProtoSCTP}:   "sctp6",
}

const noProto = ^uint64(0)

// String prints the match as ovs-ofctl does, without the priority.
func (m Match) String() string { return strings.Join(m.Canonical().terms(), ",") }

// terms prints the fields of a canonical match. An eth_type without an abbreviation is printed after
// eth_dst, further back than an abbreviation.
func (m Match) terms() []string {
	short, hidesProto, hasShort := m.abbreviation()
	terms := make([]string, 0, len(m))
	late := ""
	for _, fm := range m {
		if late != "" && fm.Field > FieldEthDst {
			terms, late = append(terms, late), ""
		}
		switch {
		case fm.Field == FieldEthType && hasShort:
			terms = append(terms, short)
		case fm.Field == FieldEthType:
			late = term(fm)
		case fm.Field == FieldIPProto && hidesProto:
		case fm.Field == FieldVLANVID && fm.isTag() && m.has(FieldVLANPCP):
			// A match on the priority implies that a tag is present.
		case fm.Field == FieldVLANVID:
			terms = append(terms, vlanTerm(fm))
		case fm.Field == FieldIPDSCP:
			terms = append(terms, fmt.Sprintf("nw_tos=%d", fm.Value.Lo<<2))
		default:
			terms = append(terms, term(fm))
		}
	}
	if late != "" {
		terms = append(terms, late)
	}
	return terms
}

// term prints one field.
func term(fm FieldMatch) string {
	info := fm.Field.info()
	label := info.match
	if label == "" {
		label = info.name
	}
	return label + "=" + info.print(fm.Value, fm.Mask, fm.Field.Bits())
}

// abbreviation returns the short name of the match's protocol, and whether it covers ip_proto.
func (m Match) abbreviation() (short string, hidesProto, ok bool) {
	ethType, ok := m.exact(FieldEthType)
	if !ok {
		return "", false, false
	}
	if proto, ok := m.exact(FieldIPProto); ok {
		if short, ok := abbreviations[[2]uint64{ethType, proto}]; ok {
			return short, true, true
		}
	}
	short, ok = abbreviations[[2]uint64{ethType, noProto}]
	return short, false, ok
}

// isTag reports whether a match on vlan_vid requires only that a tag is present.
func (fm FieldMatch) isTag() bool { return fm.Value.Lo == VLANPresent && fm.Mask.Lo == VLANPresent }

// vlanTerm prints the tag: as a VLAN id if that is matched exactly, else as bits of the tag control
// information.
func vlanTerm(fm FieldMatch) string {
	if fm.IsExact() && fm.Value.Lo&VLANPresent != 0 {
		return fmt.Sprintf("dl_vlan=%d", fm.Value.Lo&^VLANPresent)
	}
	return fmt.Sprintf("vlan_tci=0x%04x/0x%04x", fm.Value.Lo, fm.Mask.Lo)
}

package openflow

import (
	"slices"

	"github.com/contiv/netplugin/utils/inet"
)

// prerequisite is what a match must contain before a field is meaningful: the switch refuses arp_spa
// in a match without the eth_type of ARP. An empty list is no condition.
type prerequisite struct {
	ethTypes  []uint16
	ipProtos  []uint8
	icmpTypes []uint8 // ICMPv6
	vlan      bool
	tracked   bool
}

// Values of eth_type and ip_proto that fields and abbreviations refer to.
const (
	EthTypeIPv4 = inet.EtherTypeIPv4
	EthTypeARP  = 0x0806
	EthTypeRARP = 0x8035
	EthTypeVLAN = 0x8100
	EthTypeIPv6 = inet.EtherTypeIPv6
	EthTypeMPLS = 0x8847

	ProtoICMP         = inet.ICMP
	ProtoTCP          = inet.TCP
	ProtoUDP          = inet.UDP
	ProtoIPv6Fragment = inet.IPv6Fragment
	ProtoICMPv6       = inet.ICMPv6
	ProtoSCTP         = inet.SCTP

	NDSolicit = 135
	NDAdvert  = 136
)

var (
	anyPacket = prerequisite{}
	tagged    = prerequisite{vlan: true}
	tracked   = prerequisite{tracked: true}
	arp       = prerequisite{ethTypes: []uint16{EthTypeARP, EthTypeRARP}}
	ipv4      = prerequisite{ethTypes: []uint16{EthTypeIPv4}}
	ipv6      = prerequisite{ethTypes: []uint16{EthTypeIPv6}}
	ipAny     = prerequisite{ethTypes: []uint16{EthTypeIPv4, EthTypeIPv6}}
	tcp       = prerequisite{ethTypes: ipAny.ethTypes, ipProtos: []uint8{ProtoTCP}}
	udp       = prerequisite{ethTypes: ipAny.ethTypes, ipProtos: []uint8{ProtoUDP}}
	sctp      = prerequisite{ethTypes: ipAny.ethTypes, ipProtos: []uint8{ProtoSCTP}}
	icmpv4    = prerequisite{ethTypes: ipv4.ethTypes, ipProtos: []uint8{ProtoICMP}}
	icmpv6    = prerequisite{ethTypes: ipv6.ethTypes, ipProtos: []uint8{ProtoICMPv6}}
	neighbor  = prerequisite{ethTypes: ipv6.ethTypes, ipProtos: icmpv6.ipProtos, icmpTypes: []uint8{NDSolicit, NDAdvert}}
	solicit   = prerequisite{ethTypes: ipv6.ethTypes, ipProtos: icmpv6.ipProtos, icmpTypes: []uint8{NDSolicit}}
	advert    = prerequisite{ethTypes: ipv6.ethTypes, ipProtos: icmpv6.ipProtos, icmpTypes: []uint8{NDAdvert}}
)

// missing returns the first field that the match lacks, or has with a value that violates the
// prerequisite; 0 if the prerequisite is met.
func (p *prerequisite) missing(m Match) Field {
	switch {
	case len(p.ethTypes) > 0 && !hasOneOf(m, FieldEthType, p.ethTypes):
		return FieldEthType
	case len(p.ipProtos) > 0 && !hasOneOf(m, FieldIPProto, p.ipProtos):
		return FieldIPProto
	case len(p.icmpTypes) > 0 && !hasOneOf(m, FieldICMPv6Type, p.icmpTypes):
		return FieldICMPv6Type
	case p.vlan && !hasTag(m):
		return FieldVLANVID
	case p.tracked && !isTracked(m):
		return FieldCTState
	}
	return 0
}

func hasOneOf[N uint8 | uint16](m Match, f Field, wanted []N) bool {
	got, ok := m.exact(f)
	return ok && got <= uint64(^N(0)) && slices.Contains(wanted, N(got))
}

func hasTag(m Match) bool {
	fm, ok := m.Get(FieldVLANVID)
	return ok && fm.Value.Lo&fm.Mask.Lo&VLANPresent != 0
}

// isTracked reports whether the match fits only packets of valid tracked connections: it requires a
// state that only those have, or "tracked and not invalid".
func isTracked(m Match) bool {
	const known = CTNew | CTEst | CTRel | CTRpl | CTSNAT | CTDNAT
	fm, _ := m.Get(FieldCTState)
	state, mask := uint32(fm.Value.Lo), uint32(fm.Mask.Lo)
	return state&known != 0 || state&CTTrk != 0 && mask&CTInv != 0 && state&CTInv == 0
}

package openflow

// The fields, in the order in which they are sent and printed. It is the order of ovs-ofctl, and every
// field follows its prerequisites, as the switch requires.
const (
	_ Field = iota
	FieldPktMark
	FieldConjID
	FieldCTState
	FieldCTZone
	FieldCTMark
	FieldCTLabel
	FieldCTNwSrc
	FieldCTIPv6Src
	FieldCTNwDst
	FieldCTIPv6Dst
	FieldCTNwProto
	FieldCTTpSrc
	FieldCTTpDst
	FieldEthType
	FieldReg0
	FieldReg1
	FieldReg2
	FieldReg3
	FieldReg4
	FieldReg5
	FieldReg6
	FieldReg7
	FieldReg8
	FieldReg9
	FieldReg10
	FieldReg11
	FieldReg12
	FieldReg13
	FieldReg14
	FieldReg15
	FieldXReg0
	FieldXReg1
	FieldXReg2
	FieldXReg3
	FieldXReg4
	FieldXReg5
	FieldXReg6
	FieldXReg7
	FieldTunnelID
	FieldTunSrc
	FieldTunDst
	FieldTunIPv6Src
	FieldTunIPv6Dst
	FieldMetadata
	FieldInPort
	FieldVLANVID
	FieldVLANPCP
	FieldEthSrc
	FieldEthDst
	FieldIPv6Src
	FieldIPv6Dst
	FieldIPv6Label
	FieldARPSpa
	FieldARPTpa
	FieldIPv4Src
	FieldIPv4Dst
	FieldIPProto
	FieldARPOp
	FieldARPSha
	FieldARPTha
	FieldIPDSCP
	FieldIPECN
	FieldIPTTL
	FieldIPFrag
	FieldICMPType
	FieldICMPCode
	FieldICMPv6Type
	FieldICMPv6Code
	FieldNDTarget
	FieldNDSLL
	FieldNDTLL
	FieldNDReserved
	FieldNDOptionsType
	FieldTCPSrc
	FieldTCPDst
	FieldUDPSrc
	FieldUDPDst
	FieldSCTPSrc
	FieldSCTPDst
	FieldTCPFlags
	FieldInPort16 // the port as in OpenFlow 1.0: for load and move, not for match
	fieldCount
)

// Classes of field headers. The two of experimenters stand for a class and an
// experimenter id; on the wire they are 0xffff followed by the id.
const (
	classNXM0   = 0x0000 // Nicira: OpenFlow 1.0 fields
	classNXM1   = 0x0001 // Nicira: extensions
	classVendor = 0x1000 // Ericsson
	classBasic  = 0x8000 // OpenFlow
	classReg    = 0x8001 // OpenFlow packet registers
	classExp    = 0xffff
)

// header packs a class and a field number as on the wire, without the mask bit and the length.
func header(class, field uint32) uint32 { return class<<16 | field<<9 }

func basic(n uint32) uint32  { return header(classBasic, n) }
func nxm0(n uint32) uint32   { return header(classNXM0, n) }
func nxm1(n uint32) uint32   { return header(classNXM1, n) }
func vendor(n uint32) uint32 { return header(classVendor, n) }
func pktReg(n uint32) uint32 { return header(classReg, n) }

// onf returns the header for the experimenter class with the id of the ONF, the only supported
// experimenter.
func onf(n uint32) uint32 { return header(classExp, n) }

// fields is the table of all fields. An alias of 0 is none.
var fields = [fieldCount]fieldInfo{
	FieldPktMark:   {"pkt_mark", "", "NXM_NX_PKT_MARK", nxm1(33), 0, 32, anyPacket, hexadecimal},
	FieldConjID:    {"conj_id", "", "NXM_NX_CONJ_ID", nxm1(37), 0, 32, anyPacket, decimal},
	FieldCTState:   {"ct_state", "", "NXM_NX_CT_STATE", nxm1(105), 0, 32, anyPacket, ctStateFlags},
	FieldCTZone:    {"ct_zone", "", "NXM_NX_CT_ZONE", nxm1(106), 0, 16, anyPacket, masked16},
	FieldCTMark:    {"ct_mark", "", "NXM_NX_CT_MARK", nxm1(107), 0, 32, anyPacket, hexadecimal},
	FieldCTLabel:   {"ct_label", "", "NXM_NX_CT_LABEL", nxm1(108), 0, 128, anyPacket, hexadecimal},
	FieldCTNwSrc:   {"ct_nw_src", "", "NXM_NX_CT_NW_SRC", nxm1(120), 0, 32, tracked, ipAddress},
	FieldCTIPv6Src: {"ct_ipv6_src", "", "NXM_NX_CT_IPV6_SRC", nxm1(122), 0, 128, tracked, ipAddress},
	FieldCTNwDst:   {"ct_nw_dst", "", "NXM_NX_CT_NW_DST", nxm1(121), 0, 32, tracked, ipAddress},
	FieldCTIPv6Dst: {"ct_ipv6_dst", "", "NXM_NX_CT_IPV6_DST", nxm1(123), 0, 128, tracked, ipAddress},
	FieldCTNwProto: {"ct_nw_proto", "", "NXM_NX_CT_NW_PROTO", nxm1(119), 0, 8, tracked, decimal},
	FieldCTTpSrc:   {"ct_tp_src", "", "NXM_NX_CT_TP_SRC", nxm1(124), 0, 16, tracked, masked16},
	FieldCTTpDst:   {"ct_tp_dst", "", "NXM_NX_CT_TP_DST", nxm1(125), 0, 16, tracked, masked16},
	FieldEthType:   {"eth_type", "dl_type", "NXM_OF_ETH_TYPE", basic(5), nxm0(3), 16, anyPacket, hex16},

	FieldReg0:  {"reg0", "", "NXM_NX_REG0", nxm1(0), 0, 32, anyPacket, hexadecimal},
	FieldReg1:  {"reg1", "", "NXM_NX_REG1", nxm1(1), 0, 32, anyPacket, hexadecimal},
	FieldReg2:  {"reg2", "", "NXM_NX_REG2", nxm1(2), 0, 32, anyPacket, hexadecimal},
	FieldReg3:  {"reg3", "", "NXM_NX_REG3", nxm1(3), 0, 32, anyPacket, hexadecimal},
	FieldReg4:  {"reg4", "", "NXM_NX_REG4", nxm1(4), 0, 32, anyPacket, hexadecimal},
	FieldReg5:  {"reg5", "", "NXM_NX_REG5", nxm1(5), 0, 32, anyPacket, hexadecimal},
	FieldReg6:  {"reg6", "", "NXM_NX_REG6", nxm1(6), 0, 32, anyPacket, hexadecimal},
	FieldReg7:  {"reg7", "", "NXM_NX_REG7", nxm1(7), 0, 32, anyPacket, hexadecimal},
	FieldReg8:  {"reg8", "", "NXM_NX_REG8", nxm1(8), 0, 32, anyPacket, hexadecimal},
	FieldReg9:  {"reg9", "", "NXM_NX_REG9", nxm1(9), 0, 32, anyPacket, hexadecimal},
	FieldReg10: {"reg10", "", "NXM_NX_REG10", nxm1(10), 0, 32, anyPacket, hexadecimal},
	FieldReg11: {"reg11", "", "NXM_NX_REG11", nxm1(11), 0, 32, anyPacket, hexadecimal},
	FieldReg12: {"reg12", "", "NXM_NX_REG12", nxm1(12), 0, 32, anyPacket, hexadecimal},
	FieldReg13: {"reg13", "", "NXM_NX_REG13", nxm1(13), 0, 32, anyPacket, hexadecimal},
	FieldReg14: {"reg14", "", "NXM_NX_REG14", nxm1(14), 0, 32, anyPacket, hexadecimal},
	FieldReg15: {"reg15", "", "NXM_NX_REG15", nxm1(15), 0, 32, anyPacket, hexadecimal},
	FieldXReg0: {"xreg0", "", "OXM_OF_PKT_REG0", pktReg(0), 0, 64, anyPacket, hexadecimal},
	FieldXReg1: {"xreg1", "", "OXM_OF_PKT_REG1", pktReg(1), 0, 64, anyPacket, hexadecimal},
	FieldXReg2: {"xreg2", "", "OXM_OF_PKT_REG2", pktReg(2), 0, 64, anyPacket, hexadecimal},
	FieldXReg3: {"xreg3", "", "OXM_OF_PKT_REG3", pktReg(3), 0, 64, anyPacket, hexadecimal},
	FieldXReg4: {"xreg4", "", "OXM_OF_PKT_REG4", pktReg(4), 0, 64, anyPacket, hexadecimal},
	FieldXReg5: {"xreg5", "", "OXM_OF_PKT_REG5", pktReg(5), 0, 64, anyPacket, hexadecimal},
	FieldXReg6: {"xreg6", "", "OXM_OF_PKT_REG6", pktReg(6), 0, 64, anyPacket, hexadecimal},
	FieldXReg7: {"xreg7", "", "OXM_OF_PKT_REG7", pktReg(7), 0, 64, anyPacket, hexadecimal},

	FieldTunnelID:   {"tun_id", "", "NXM_NX_TUN_ID", basic(38), nxm1(16), 64, anyPacket, hexadecimal},
	FieldTunSrc:     {"tun_src", "", "NXM_NX_TUN_IPV4_SRC", nxm1(31), 0, 32, anyPacket, ipAddress},
	FieldTunDst:     {"tun_dst", "", "NXM_NX_TUN_IPV4_DST", nxm1(32), 0, 32, anyPacket, ipAddress},
	FieldTunIPv6Src: {"tun_ipv6_src", "", "NXM_NX_TUN_IPV6_SRC", nxm1(109), 0, 128, anyPacket, ipAddress},
	FieldTunIPv6Dst: {"tun_ipv6_dst", "", "NXM_NX_TUN_IPV6_DST", nxm1(110), 0, 128, anyPacket, ipAddress},
	FieldMetadata:   {"metadata", "", "OXM_OF_METADATA", basic(2), 0, 64, anyPacket, hexadecimal},
	FieldInPort:     {"in_port_oxm", "in_port", "OXM_OF_IN_PORT", basic(0), 0, 32, anyPacket, portNumber},

	FieldVLANVID: {"vlan_vid", "", "OXM_OF_VLAN_VID", basic(6), 0, 13, anyPacket, decimal},
	FieldVLANPCP: {"vlan_pcp", "dl_vlan_pcp", "OXM_OF_VLAN_PCP", basic(7), 0, 3, tagged, decimal},
	FieldEthSrc:  {"eth_src", "dl_src", "NXM_OF_ETH_SRC", basic(4), nxm0(2), 48, anyPacket, macAddress},
	FieldEthDst:  {"eth_dst", "dl_dst", "NXM_OF_ETH_DST", basic(3), nxm0(1), 48, anyPacket, macAddress},

	FieldIPv6Src:   {"ipv6_src", "", "NXM_NX_IPV6_SRC", basic(26), nxm1(19), 128, ipv6, ipAddress},
	FieldIPv6Dst:   {"ipv6_dst", "", "NXM_NX_IPV6_DST", basic(27), nxm1(20), 128, ipv6, ipAddress},
	FieldIPv6Label: {"ipv6_label", "", "NXM_NX_IPV6_LABEL", basic(28), nxm1(27), 20, ipv6, flowLabel},
	FieldARPSpa:    {"arp_spa", "", "NXM_OF_ARP_SPA", basic(22), nxm0(16), 32, arp, ipAddress},
	FieldARPTpa:    {"arp_tpa", "", "NXM_OF_ARP_TPA", basic(23), nxm0(17), 32, arp, ipAddress},
	FieldIPv4Src:   {"ip_src", "nw_src", "NXM_OF_IP_SRC", basic(11), nxm0(7), 32, ipv4, ipAddress},
	FieldIPv4Dst:   {"ip_dst", "nw_dst", "NXM_OF_IP_DST", basic(12), nxm0(8), 32, ipv4, ipAddress},
	FieldIPProto:   {"nw_proto", "", "NXM_OF_IP_PROTO", basic(10), nxm0(6), 8, ipAny, decimal},
	FieldARPOp:     {"arp_op", "", "NXM_OF_ARP_OP", basic(21), nxm0(15), 16, arp, decimal},
	FieldARPSha:    {"arp_sha", "", "NXM_NX_ARP_SHA", basic(24), nxm1(17), 48, arp, macAddress},
	FieldARPTha:    {"arp_tha", "", "NXM_NX_ARP_THA", basic(25), nxm1(18), 48, arp, macAddress},
	FieldIPDSCP:    {"ip_dscp", "nw_tos", "OXM_OF_IP_DSCP", basic(8), 0, 6, ipAny, decimal},
	FieldIPECN:     {"nw_ecn", "", "NXM_NX_IP_ECN", basic(9), nxm1(28), 2, ipAny, decimal},
	FieldIPTTL:     {"nw_ttl", "", "NXM_NX_IP_TTL", nxm1(29), 0, 8, ipAny, decimal},
	FieldIPFrag:    {"ip_frag", "nw_frag", "NXM_NX_IP_FRAG", nxm1(26), 0, 2, ipAny, fragment},

	FieldICMPType:      {"icmp_type", "", "NXM_OF_ICMP_TYPE", basic(19), nxm0(13), 8, icmpv4, decimal},
	FieldICMPCode:      {"icmp_code", "", "NXM_OF_ICMP_CODE", basic(20), nxm0(14), 8, icmpv4, decimal},
	FieldICMPv6Type:    {"icmpv6_type", "icmp_type", "NXM_NX_ICMPV6_TYPE", basic(29), nxm1(21), 8, icmpv6, decimal},
	FieldICMPv6Code:    {"icmpv6_code", "icmp_code", "NXM_NX_ICMPV6_CODE", basic(30), nxm1(22), 8, icmpv6, decimal},
	FieldNDTarget:      {"nd_target", "", "NXM_NX_ND_TARGET", basic(31), nxm1(23), 128, neighbor, ipAddress},
	FieldNDSLL:         {"nd_sll", "", "NXM_NX_ND_SLL", basic(32), nxm1(24), 48, solicit, macAddress},
	FieldNDTLL:         {"nd_tll", "", "NXM_NX_ND_TLL", basic(33), nxm1(25), 48, advert, macAddress},
	FieldNDReserved:    {"nd_reserved", "", "ERICOXM_OF_ICMPV6_ND_RESERVED", vendor(1), 0, 32, neighbor, decimal},
	FieldNDOptionsType: {"nd_options_type", "", "ERICOXM_OF_ICMPV6_ND_OPTIONS_TYPE", vendor(2), 0, 8, neighbor, decimal},

	FieldTCPSrc:   {"tcp_src", "tp_src", "NXM_OF_TCP_SRC", basic(13), nxm0(9), 16, tcp, masked16},
	FieldTCPDst:   {"tcp_dst", "tp_dst", "NXM_OF_TCP_DST", basic(14), nxm0(10), 16, tcp, masked16},
	FieldUDPSrc:   {"udp_src", "tp_src", "NXM_OF_UDP_SRC", basic(15), nxm0(11), 16, udp, masked16},
	FieldUDPDst:   {"udp_dst", "tp_dst", "NXM_OF_UDP_DST", basic(16), nxm0(12), 16, udp, masked16},
	FieldSCTPSrc:  {"sctp_src", "tp_src", "OXM_OF_SCTP_SRC", basic(17), 0, 16, sctp, masked16},
	FieldSCTPDst:  {"sctp_dst", "tp_dst", "OXM_OF_SCTP_DST", basic(18), 0, 16, sctp, masked16},
	FieldTCPFlags: {"tcp_flags", "", "NXM_NX_TCP_FLAGS", onf(42), nxm1(34), 12, tcp, tcpFlagNames},
	FieldInPort16: {"in_port", "", "NXM_OF_IN_PORT", nxm0(0), 0, 16, anyPacket, portNumber},
}

// fieldOf maps a header without mask bit and length to its field.
var fieldOf = indexFields()

func indexFields() map[uint32]Field {
	index := make(map[uint32]Field, 2*len(fields))
	for f := Field(1); f < fieldCount; f++ {
		index[fields[f].oxm] = f
		if alias := fields[f].alias; alias != 0 {
			index[alias] = f
		}
	}
	return index
}

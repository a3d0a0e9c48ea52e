package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// family is what differs between IPv4 and IPv6 in a flow, so that all other files handle both at once.
type family struct {
	ethType  uint16
	icmp     uint8 // protocol number of its ICMP
	icmpType func(uint8) openflow.FieldMatch
	errors   []uint8 // types of its ICMP about a packet: unreachable, too large, time exceeded, parameter problem
	echo     openflow.FieldMatch
	echoed   openflow.FieldMatch
	srcField openflow.Field
	dstField openflow.Field
	toMany   netip.Prefix // multicast and broadcast addresses
	onLink   netip.Prefix // addresses that no router forwards to
	loopback netip.Prefix // loopback addresses
}

func ipv4() family {
	return family{
		ethType:  openflow.EthTypeIPv4,
		icmp:     openflow.ProtoICMP,
		icmpType: openflow.ICMPType,
		errors:   []uint8{3, 11, 12},
		echo:     openflow.ICMPType(8),
		echoed:   openflow.ICMPType(0),
		srcField: openflow.FieldIPv4Src,
		dstField: openflow.FieldIPv4Dst,
		toMany:   netip.MustParsePrefix("224.0.0.0/3"),
		onLink:   netip.MustParsePrefix("169.254.0.0/16"),
		loopback: netip.MustParsePrefix("127.0.0.0/8"),
	}
}

func ipv6() family {
	return family{
		ethType:  openflow.EthTypeIPv6,
		icmp:     openflow.ProtoICMPv6,
		icmpType: openflow.ICMPv6Type,
		errors:   []uint8{1, 2, 3, 4},
		echo:     openflow.ICMPv6Type(128),
		echoed:   openflow.ICMPv6Type(129),
		srcField: openflow.FieldIPv6Src,
		dstField: openflow.FieldIPv6Dst,
		toMany:   netip.MustParsePrefix("ff00::/8"),
		onLink:   netip.MustParsePrefix("fe80::/10"),
		loopback: netip.MustParsePrefix("::1/128"),
	}
}

func familyOf(a netip.Addr) family {
	if a.Is4() {
		return ipv4()
	}
	return ipv6()
}

// index returns the family's index in arrays with one element for each.
func (f family) index() int {
	if f.ethType == openflow.EthTypeIPv4 {
		return 0
	}
	return 1
}

// fragmentsOf returns the protocol numbers that Open vSwitch sees in fragments of a protocol: later IPv6
// fragments have that of the fragment header.
func (f family) fragmentsOf(protocol uint8) []uint8 {
	if f.index() == 0 {
		return []uint8{protocol}
	}
	return []uint8{protocol, openflow.ProtoIPv6Fragment}
}

// is matches packets of the family.
func (f family) is() openflow.FieldMatch { return openflow.EthType(f.ethType) }

// isICMP matches packets of the family's ICMP; is must be matched, too.
func (f family) isICMP() openflow.FieldMatch { return openflow.IPProto(f.icmp) }

// src matches the sender's address or network.
func (f family) src(p netip.Prefix) openflow.FieldMatch {
	if f.ethType == openflow.EthTypeIPv4 {
		return openflow.IPv4Src(p)
	}
	return openflow.IPv6Src(p)
}

// dst matches the receiver's address or network.
func (f family) dst(p netip.Prefix) openflow.FieldMatch {
	if f.ethType == openflow.EthTypeIPv4 {
		return openflow.IPv4Dst(p)
	}
	return openflow.IPv6Dst(p)
}

// addresses returns the valid ones of the given addresses.
func addresses(all ...netip.Addr) []netip.Addr {
	valid := make([]netip.Addr, 0, len(all))
	for _, a := range all {
		if a.IsValid() {
			valid = append(valid, a)
		}
	}
	return valid
}

func (e placed) addresses() []netip.Addr { return addresses(e.IPv4, e.IPv6) }

package testbed

import (
	"net/netip"
	"strconv"
)

// underlay is the two networks that join the nodes; node N has host number N in each.
type underlay struct{ mgmt, vtep netip.Prefix }

// underlayOf is that of nodes of IPv4, or of IPv6 and nothing else.
func underlayOf(onlyIPv6 bool) underlay {
	if onlyIPv6 {
		return underlay{netip.MustParsePrefix("2001:db8:1::/64"), netip.MustParsePrefix("2001:db8:2::/64")} // RFC 3849
	}
	return underlay{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24")} // TEST-NET-1 and 2, RFC 5737
}

// hostIn is the address with a host number in a network.
func hostIn(network netip.Prefix, number int) netip.Addr {
	bytes := network.Addr().AsSlice()
	bytes[len(bytes)-1] = byte(number) // see maxNodes
	a, _ := netip.AddrFromSlice(bytes) // as long as it was
	return a
}

// withLength is an address of a network, with its length.
func withLength(address string, network netip.Prefix) string {
	return address + "/" + strconv.Itoa(network.Bits())
}

// VTEPNetwork is the network of the nodes' ends of tunnels.
func (b *Bed) VTEPNetwork() string { return b.underlay.vtep.String() }

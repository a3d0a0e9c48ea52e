package testbed

import (
	"net/netip"
	"strconv"
)

// underlay has the two networks that connect the nodes; node N has host number N in each.
type underlay struct{ mgmt, vtep netip.Prefix }

// underlayOf returns the underlay of nodes with IPv4, or with IPv6 only.
func underlayOf(onlyIPv6 bool) underlay {
	if onlyIPv6 {
		return underlay{netip.MustParsePrefix("2001:db8:1::/64"), netip.MustParsePrefix("2001:db8:2::/64")} // RFC 3849
	}
	return underlay{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24")} // TEST-NET-1 and 2, RFC 5737
}

// hostIn returns the address with a host number in a network.
func hostIn(network netip.Prefix, number int) netip.Addr {
	bytes := network.Addr().AsSlice()
	bytes[len(bytes)-1] = byte(number) // see maxNodes
	a, _ := netip.AddrFromSlice(bytes) // of the same length
	return a
}

// withLength returns an address with the prefix length of a network.
func withLength(address string, network netip.Prefix) string {
	return address + "/" + strconv.Itoa(network.Bits())
}

// VTEPNetwork returns the network of the nodes' tunnel ends.
func (b *Bed) VTEPNetwork() string { return b.underlay.vtep.String() }

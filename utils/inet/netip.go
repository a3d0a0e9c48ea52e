package inet

import (
	"net"
	"net/netip"
	"net/url"
)

// AddrOf converts a net.IP; an IPv4 address has 4 bytes. For nil it returns the zero value.
func AddrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// PrefixOf converts a net.IPNet. For nil, which netlink uses for all addresses, it returns the zero value.
func PrefixOf(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(AddrOf(n.IP), bits)
}

// IPNet is the inverse of PrefixOf, for valid prefixes.
func IPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// IsLoopbackHost reports whether the host of a URL is this machine: localhost, or a loopback address. Other names
// may resolve to anything.
func IsLoopbackHost(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// IsExposed reports whether a URL means plain HTTP, or a protocol below it, at an address that other machines
// reach: they can read the traffic, and send requests.
func IsExposed(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "http" && !IsLoopbackHost(u.Hostname())
}

// Host returns the prefix that consists of one address.
func Host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

package inet

import (
	"net"
	"net/netip"
	"net/url"
)

// AddrOf is an address of package net as one of netip; an IPv4 address has 4 bytes. Without one it is the zero value.
func AddrOf(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a.Unmap()
}

// PrefixOf is a network of package net as a prefix. Of nil, as netlink has it for all addresses, it is the zero value.
func PrefixOf(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(AddrOf(n.IP), bits)
}

// IPNet is the inverse of PrefixOf, of a valid prefix.
func IPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// IsLoopbackHost tells whether the host of a URL is one of this machine only: localhost, or a loopback address. Other
// names may lead anywhere.
func IsLoopbackHost(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// IsExposed tells whether a URL is of plain HTTP, or of what is spoken beneath it, at an address that other machines reach: they hear what
// is said there, and may ask.
func IsExposed(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "http" && !IsLoopbackHost(u.Hostname())
}

// Host is the prefix that has one address.
func Host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

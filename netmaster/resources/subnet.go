// Package resources allocates the limited resources of a cluster: addresses, VLANs, VNIs, group ids and routing
// domain numbers.
//
// Allocations are not stored in a list, which would be rewritten with each entry: the record of an owner has its
// number, and Used finds the numbers that are in a record. An allocator finds a free number; its caller puts it
// into a record, all inside one store transaction. Allocators do no I/O and take no lock.
//
//   - IPv4Pool: addresses of a network or of the range a group reserved in it
//   - IPv6Pool: addresses of a network, found by counting on from the last one
//   - VLANPool, VXLANPool: tags, drawn from configurable ranges
//   - LowestGroupID, LowestVRF: small numbers by which the datapath identifies groups and tenants
package resources

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/utils/fault"
)

// Valid prefix lengths of an IPv4 network.
const (
	minIPv4Len = 8
	maxIPv4Len = 32
)

// Subnet is an IPv4 subnet with the part of it that a network may use.
type Subnet struct {
	Prefix      netip.Prefix // masked
	First, Last netip.Addr   // as ranged, else the whole subnet
	Ranged      bool         // a range was given
}

// ParseSubnet parses "10.1.1.0/24" or "10.1.1.10-10.1.1.20/24". Bits below the prefix length are dropped:
// "10.1.1.128/24" is the whole of 10.1.1.0/24.
func ParseSubnet(text string) (Subnet, error) {
	invalid := fault.New(fault.Invalid, "Network subnet format not valid").WithField("subnet").
		WithExplanation("subnet %q: want address/length, such as 10.1.2.0/24, or first-last/length with both in one subnet of that length, such as 10.1.2.10-10.1.2.20/24", text)
	addresses, lenText, ok := strings.Cut(text, "/")
	if !ok {
		return Subnet{}, invalid
	}
	length, err := strconv.Atoi(lenText)
	if err != nil {
		return Subnet{}, invalid
	}
	first, last, err := parseRange(addresses)
	if err != nil {
		return Subnet{}, invalid
	}
	if length < minIPv4Len || length > maxIPv4Len {
		return Subnet{}, fault.New(fault.Invalid, "subnet length %d not supported", length).WithField("subnet")
	}
	prefix := netip.PrefixFrom(first, length).Masked()
	if !strings.Contains(addresses, "-") {
		return Subnet{Prefix: prefix, First: prefix.Addr(), Last: lastOf(prefix)}, nil
	}
	if last.Less(first) || !prefix.Contains(last) {
		return Subnet{}, invalid
	}
	return Subnet{Prefix: prefix, First: first, Last: last, Ranged: true}, nil
}

// Range returns the usable part as text, "first-last".
func (s Subnet) Range() string { return s.First.String() + "-" + s.Last.String() }

// Overlaps reports whether two networks could allocate the same address.
func (s Subnet) Overlaps(other Subnet) bool {
	return !s.Last.Less(other.First) && !other.Last.Less(s.First)
}

// CIDR returns the longest prefix that covers the usable part. Rules that name the network match it, since the
// datapath supports prefixes but not ranges.
func (s Subnet) CIDR() netip.Prefix {
	if !s.Ranged {
		return s.Prefix
	}
	// The shortest prefix of First that still contains Last.
	for length := maxIPv4Len; length > s.Prefix.Bits(); length-- {
		if cover := netip.PrefixFrom(s.First, length).Masked(); cover.Contains(s.Last) {
			return cover
		}
	}
	return s.Prefix
}

// parseRange parses "a-b", or "a" as a range of one address.
func parseRange(text string) (first, last netip.Addr, err error) {
	firstText, lastText, ranged := strings.Cut(text, "-")
	if !ranged {
		lastText = firstText
	}
	if first, err = parseIPv4(firstText); err != nil {
		return first, last, err
	}
	last, err = parseIPv4(lastText)
	return first, last, err
}

func parseIPv4(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	if err == nil && !addr.Is4() {
		err = fault.New(fault.Invalid, "%s is not an IPv4 address", text)
	}
	return addr, err
}

func lastOf(prefix netip.Prefix) netip.Addr {
	return toIPv4(fromIPv4(prefix.Addr()) + uint32(sizeOf(prefix)-1))
}

// sizeOf returns the number of addresses in an IPv4 prefix.
func sizeOf(prefix netip.Prefix) uint { return 1 << (32 - prefix.Bits()) }

func fromIPv4(addr netip.Addr) uint32 {
	b := addr.As4()
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func toIPv4(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
}

package resources

import (
	"encoding/binary"
	"math"
	"math/bits"
	"net/netip"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// Valid prefix lengths of an IPv6 network.
const (
	minIPv6Len = 16
	maxIPv6Len = 128
)

// IPv6Pool allocates the IPv6 addresses of a network. An allocation continues after the last one, and wraps around
// at the end of the subnet. Host part 0 and the gateway are never allocated.
//
// In a network without IPv4 the MAC address of an endpoint is derived from the last 32 bits of its IPv6 address.
// There the host part ends at ::ffff:ffff, so that no two endpoints have the same MAC address.
type IPv6Pool struct {
	most    uint128 // largest host part
	prefix  netip.Prefix
	gateway netip.Addr // zero: none
	last    uint128    // host part of the last allocated address
	used    Used[netip.Addr]
}

// InitNetworkIPv6 sets the IPv6 fields of a new network's record.
func InitNetworkIPv6(rec *mastercfg.CfgNetworkState, subnet, gateway string) error {
	if subnet == "" {
		if gateway != "" {
			return fault.New(fault.Invalid, "ipv6 gateway %s given without an ipv6 subnet", gateway).WithField("ipv6Gateway")
		}
		return nil
	}
	prefix, err := ParseIPv6Subnet(subnet)
	if err != nil {
		return err
	}
	if err := checkUsable(prefix, "ipv6Subnet"); err != nil {
		return err
	}
	rec.IPv6Subnet, rec.IPv6SubnetLen = prefix.Addr().String(), uint(prefix.Bits())
	rec.IPv6AllocMap = map[string]bool{}
	if gateway == "" {
		return nil
	}
	addr, parseErr := netip.ParseAddr(gateway)
	if parseErr != nil || !addr.Is6() || !prefix.Contains(addr) {
		return fault.New(fault.Invalid, "ipv6 gateway %s is not in subnet %s", gateway, prefix).WithField("ipv6Gateway")
	}
	rec.IPv6Gateway = addr.String()
	rec.IPv6AllocMap[hostPart(prefix, addr).key()] = true
	return nil
}

// ParseIPv6Subnet parses "2001:db8::/64".
func ParseIPv6Subnet(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil || !prefix.Addr().Is6() || prefix.Addr().Is4In6() {
		return netip.Prefix{}, fault.New(fault.Invalid, "ipv6 subnet %s is not valid", text).WithField("ipv6Subnet")
	}
	if prefix.Bits() < minIPv6Len || prefix.Bits() > maxIPv6Len {
		return netip.Prefix{}, fault.New(fault.Invalid, "subnet length %d not supported", prefix.Bits()).WithField("ipv6Subnet")
	}
	return prefix.Masked(), nil
}

// IPv6Address returns the address of a network with a host part, "::5".
func IPv6Address(rec *mastercfg.CfgNetworkState, host string) (netip.Addr, bool) {
	p, err := NetworkPoolIPv6(rec, nil, host)
	return p.compose(p.last), err == nil && p.last != uint128{}
}

// LastIPv6 returns the last address of a subnet.
func LastIPv6(prefix netip.Prefix) netip.Addr {
	base, host := fromIPv6(prefix.Addr()), hostMask(prefix)
	return uint128{base.hi | host.hi, base.lo | host.lo}.addr()
}

// NetworkPoolIPv6 returns the IPv6 pool of a network; used are the addresses in use, last is the host part
// allocated last, "::5", or empty.
func NetworkPoolIPv6(rec *mastercfg.CfgNetworkState, used Used[netip.Addr], last string) (IPv6Pool, error) {
	if rec.IPv6SubnetLen == 0 {
		return IPv6Pool{}, fault.New(fault.Invalid, "subnet length 0 is invalid: network %s has no ipv6 subnet", rec.ID)
	}
	addr, err := netip.ParseAddr(rec.IPv6Subnet)
	if err != nil || !addr.Is6() || rec.IPv6SubnetLen > maxIPv6Len {
		return IPv6Pool{}, fault.New(fault.Internal, "network %s: ipv6 subnet %s/%d is not valid", rec.ID, rec.IPv6Subnet, rec.IPv6SubnetLen)
	}
	p := IPv6Pool{prefix: netip.PrefixFrom(addr, int(rec.IPv6SubnetLen)).Masked(), used: used}
	p.most = hostMask(p.prefix)
	if OnlyIPv6(rec) {
		p.most = p.most.and(uint128{0, math.MaxUint32})
	}
	p.gateway, _ = netip.ParseAddr(rec.IPv6Gateway)     // empty: none
	if host, err := netip.ParseAddr(last); err == nil { // else nothing was allocated
		p.last = hostPart(p.prefix, host)
	}
	return p, nil
}

// Next returns the next free address after the last one.
func (p IPv6Pool) Next() (netip.Addr, error) {
	one := uint128{0, 1}
	if p.last.less(p.most) {
		if addr, ok := p.free(p.last.next(), p.most); ok {
			return addr, nil
		}
	}
	if addr, ok := p.free(one, p.last); ok {
		return addr, nil
	}
	return netip.Addr{}, exhausted("Reached MaxHosts (%d), no address left in ipv6 subnet %s", p.most.lo, p.prefix)
}

// free returns the first free address between two host parts.
func (p IPv6Pool) free(from, to uint128) (netip.Addr, bool) {
	if p.most == (uint128{}) {
		return netip.Addr{}, false // the subnet is a single address, its own
	}
	addr, ok := p.used.NextFree(p.compose(from))
	if ok && addr == p.gateway {
		addr, ok = p.used.NextFree(addr.Next())
	}
	return addr, ok && p.prefix.Contains(addr) && !p.compose(to).Less(addr)
}

// HostPart returns the host part of an address as text: "::5".
func (p IPv6Pool) HostPart(addr netip.Addr) string { return hostPart(p.prefix, addr).key() }

// Check refuses a requested address that is not in the subnet, or never allocated. It does not check whether the
// address is in use.
func (p IPv6Pool) Check(addr netip.Addr) error {
	if !addr.Is6() || !p.prefix.Contains(addr) {
		return fault.New(fault.Invalid, "ipv6 address %s is not in subnet %s", addr, p.prefix)
	}
	host := hostPart(p.prefix, addr)
	if host == (uint128{}) || addr == p.gateway {
		return p.NotAvailable(addr)
	}
	if p.most.less(host) {
		return p.NotAvailable(addr).WithExplanation("ipv6 address %s: in a network without an IPv4 subnet the last one is %s", addr, p.compose(p.most))
	}
	return nil
}

// NotAvailable returns the error for an address that cannot be allocated.
func (p IPv6Pool) NotAvailable(addr netip.Addr) *fault.Error {
	return fault.New(fault.Conflict, "requested ipv6 address %s is not available in subnet %s", addr, p.prefix)
}

func (p IPv6Pool) compose(host uint128) netip.Addr {
	base := fromIPv6(p.prefix.Addr())
	return uint128{base.hi | host.hi, base.lo | host.lo}.addr()
}

// hostPart returns the part of an address after the prefix.
func hostPart(prefix netip.Prefix, addr netip.Addr) uint128 {
	return fromIPv6(addr).and(hostMask(prefix))
}

func hostMask(prefix netip.Prefix) uint128 {
	switch n := uint(128 - prefix.Bits()); {
	case n == 0:
		return uint128{}
	case n <= 64:
		return uint128{0, ^uint64(0) >> (64 - n)}
	default:
		return uint128{^uint64(0) >> (128 - n), ^uint64(0)}
	}
}

// uint128 is an address as a number.
type uint128 struct{ hi, lo uint64 }

func fromIPv6(addr netip.Addr) uint128 {
	b := addr.As16()
	return uint128{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (n uint128) addr() netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], n.hi)
	binary.BigEndian.PutUint64(b[8:], n.lo)
	return netip.AddrFrom16(b)
}

// key returns the host part as the record lists it, for example "::5".
func (n uint128) key() string { return n.addr().String() }

func (n uint128) and(m uint128) uint128 { return uint128{n.hi & m.hi, n.lo & m.lo} }

func (n uint128) less(m uint128) bool { return n.hi < m.hi || n.hi == m.hi && n.lo < m.lo }

func (n uint128) next() uint128 {
	lo, carry := bits.Add64(n.lo, 1, 0)
	return uint128{n.hi + carry, lo}
}

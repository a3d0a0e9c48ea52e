package resources

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// The prefix lengths an IPv6 network may have.
const (
	minIPv6Len = 16
	maxIPv6Len = 128
)

// IPv6Pool hands out the IPv6 addresses of a network. A subnet is far too
// large for a map of bits, and a list in the record would grow with the
// endpoints. So the endpoints' own records tell which addresses they have; the
// network's lists the gateway and those that are held for an endpoint to come.
// An allocation counts on from the last one, round the end of the subnet to its
// beginning. Host part 0 is never handed out.
type IPv6Pool struct {
	rec    *mastercfg.CfgNetworkState
	prefix netip.Prefix
	used   func(netip.Addr) bool
}

// InitNetworkIPv6 fills the IPv6 fields of a new network's record.
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

// ParseIPv6Subnet reads "2001:db8::/64".
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

// LastIPv6 is the last address of a subnet.
func LastIPv6(prefix netip.Prefix) netip.Addr {
	base, host := fromIPv6(prefix.Addr()), hostMask(prefix)
	return uint128{base.hi | host.hi, base.lo | host.lo}.addr()
}

// NetworkPoolIPv6 is the IPv6 pool of a network's record, to which changes go;
// used tells whether an endpoint has an address.
func NetworkPoolIPv6(rec *mastercfg.CfgNetworkState, used func(netip.Addr) bool) (IPv6Pool, error) {
	if rec.IPv6SubnetLen == 0 {
		return IPv6Pool{}, fault.New(fault.Invalid, "subnet length 0 is invalid: network %s has no ipv6 subnet", rec.ID)
	}
	addr, err := netip.ParseAddr(rec.IPv6Subnet)
	if err != nil || !addr.Is6() || rec.IPv6SubnetLen > maxIPv6Len {
		return IPv6Pool{}, fault.New(fault.Internal, "network %s: ipv6 subnet %s/%d is not valid", rec.ID, rec.IPv6Subnet, rec.IPv6SubnetLen)
	}
	if rec.IPv6AllocMap == nil {
		rec.IPv6AllocMap = map[string]bool{}
	}
	return IPv6Pool{rec: rec, prefix: netip.PrefixFrom(addr, int(rec.IPv6SubnetLen)).Masked(), used: used}, nil
}

// Allocate finds the next free address after the last one. It is the caller's
// to give to an endpoint, or to Hold.
func (p IPv6Pool) Allocate() (netip.Addr, error) {
	most := p.maxHost()
	last := uint128{}
	if addr, err := netip.ParseAddr(p.rec.IPv6LastHost); err == nil {
		last = hostPart(p.prefix, addr)
	}
	for host := p.after(last); ; host = p.after(host) {
		if addr := p.compose(host); host != (uint128{}) && !p.rec.IPv6AllocMap[host.key()] && !p.used(addr) {
			p.rec.IPv6LastHost = host.key()
			return addr, nil
		}
		if host == last || most == (uint128{}) {
			return netip.Addr{}, fault.New(fault.Exhausted, "Reached MaxHosts (%d), no address left in ipv6 subnet %s", most.lo, p.prefix)
		}
	}
}

// after is the host part that follows another, round the end.
func (p IPv6Pool) after(host uint128) uint128 {
	if host == p.maxHost() {
		return uint128{}
	}
	return host.next()
}

// Hold keeps an address for an endpoint to come.
func (p IPv6Pool) Hold(addr netip.Addr) { p.rec.IPv6AllocMap[hostPart(p.prefix, addr).key()] = true }

// Held tells whether an address is kept for an endpoint to come.
func (p IPv6Pool) Held(addr netip.Addr) bool {
	return addr.String() != p.rec.IPv6Gateway && p.rec.IPv6AllocMap[hostPart(p.prefix, addr).key()]
}

// Take lets an endpoint have the address it asks for by name: one that is free,
// or held, which may be for this very endpoint.
func (p IPv6Pool) Take(addr netip.Addr) error {
	if !addr.Is6() || !p.prefix.Contains(addr) {
		return fault.New(fault.Invalid, "ipv6 address %s is not in subnet %s", addr, p.prefix)
	}
	if hostPart(p.prefix, addr) == (uint128{}) || addr.String() == p.rec.IPv6Gateway || p.used(addr) {
		return fault.New(fault.Conflict, "requested ipv6 address %s is not available in subnet %s", addr, p.prefix)
	}
	p.Release(addr)
	return nil
}

// Release ends holding an address and tells whether it was held. The gateway stays.
func (p IPv6Pool) Release(addr netip.Addr) bool {
	if !p.prefix.Contains(addr) || !p.Held(addr) {
		return false
	}
	delete(p.rec.IPv6AllocMap, hostPart(p.prefix, addr).key())
	return true
}

// Marked visits the addresses that are held.
func (p IPv6Pool) Marked(visit func(netip.Addr)) {
	for key := range p.rec.IPv6AllocMap {
		host, err := netip.ParseAddr(key)
		if err != nil {
			continue // not written by an allocator; it blocks nothing
		}
		if addr := p.compose(hostPart(p.prefix, host)); addr.String() != p.rec.IPv6Gateway {
			visit(addr)
		}
	}
}

// maxHost is the host part with all bits set.
func (p IPv6Pool) maxHost() uint128 {
	return uint128{^uint64(0), ^uint64(0)}.and(hostMask(p.prefix))
}

func (p IPv6Pool) compose(host uint128) netip.Addr {
	base := fromIPv6(p.prefix.Addr())
	return uint128{base.hi | host.hi, base.lo | host.lo}.addr()
}

// hostPart is what an address adds to the prefix.
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

// key is the host part as the record lists it, for example "::5".
func (n uint128) key() string { return n.addr().String() }

func (n uint128) and(m uint128) uint128 { return uint128{n.hi & m.hi, n.lo & m.lo} }

func (n uint128) next() uint128 {
	lo, carry := bits.Add64(n.lo, 1, 0)
	return uint128{n.hi + carry, lo}
}

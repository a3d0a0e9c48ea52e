package resources

import (
	"net/netip"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// IPv4Pool allocates the addresses of a network, or of the range that one of its groups has reserved. Addresses
// are offsets from the subnet's base.
//
// The subnet address, the broadcast address, the gateway and addresses outside the range are never allocated; a
// network does not allocate from the ranges of its groups.
type IPv4Pool struct {
	used        Used[netip.Addr]
	ranges      Ranges
	prefix      netip.Prefix
	first, last uint       // allocatable offsets, inclusive
	gateway     netip.Addr // zero: none
	exhausted   string     // message if nothing is left
}

// InitNetwork sets the IPv4 fields of a new network's record; a network with only IPv6 has none.
func InitNetwork(rec *mastercfg.CfgNetworkState, text, gateway string) error {
	if text == "" {
		if gateway != "" {
			return fault.New(fault.Invalid, "gateway %s given without a subnet", gateway).WithField("gateway")
		}
		return nil
	}
	subnet, err := ParseSubnet(text)
	if err != nil {
		return err
	}
	if err := checkUsable(subnet.Prefix, "subnet"); err != nil {
		return err
	}
	rec.SubnetIP, rec.SubnetLen = subnet.Prefix.Addr().String(), uint(subnet.Prefix.Bits())
	rec.IPAddrRange = subnet.Range()
	if gateway != "" {
		addr, err := parseIPv4(gateway)
		if err != nil {
			return fault.New(fault.Invalid, "gateway %s: %w", gateway, err).WithField("gateway")
		}
		if _, outside := offsetChecked(subnet.Prefix, addr); outside != nil {
			return outside.WithField("gateway")
		}
		if broadcast := lastOf(subnet.Prefix); subnet.Prefix.Bits() < 31 && addr == broadcast {
			return fault.New(fault.Invalid, "gateway %s is the broadcast address of subnet %s, to which no host has a route", gateway, subnet.Prefix).WithField("gateway")
		}
		rec.Gateway = addr.String()
	}
	return nil
}

// NetworkPool returns the pool of a network; used are the addresses in use, ranges those that its groups have
// reserved. The pool of a network with only IPv6 is empty.
func NetworkPool(rec *mastercfg.CfgNetworkState, used Used[netip.Addr], ranges Ranges) (IPv4Pool, error) {
	if OnlyIPv6(rec) {
		return emptyPool(rec), nil
	}
	prefix, err := networkPrefix(rec)
	if err != nil {
		return IPv4Pool{}, err
	}
	first, last, err := parseRange(rec.IPAddrRange)
	if err != nil || !prefix.Contains(first) || !prefix.Contains(last) {
		return IPv4Pool{}, fault.New(fault.Internal, "network %s: address range %q is not in subnet %s",
			rec.ID, rec.IPAddrRange, prefix)
	}
	pool := IPv4Pool{used: used, ranges: ranges, prefix: prefix}
	pool.bound(offsetIn(prefix, first), offsetIn(prefix, last))
	pool.gateway, _ = netip.ParseAddr(rec.Gateway) // empty: none
	pool.exhausted = "subnet " + prefix.String()
	return pool, nil
}

// OnlyIPv6 reports whether a network has no IPv4.
func OnlyIPv6(rec *mastercfg.CfgNetworkState) bool {
	return rec.SubnetIP == "" && rec.SubnetLen == 0 && rec.IPv6SubnetLen != 0
}

// emptyPool returns a pool without addresses: its prefix is one that no host can have.
func emptyPool(rec *mastercfg.CfgNetworkState) IPv4Pool {
	pool := IPv4Pool{prefix: noSubnet(), exhausted: "network " + rec.ID + ", which has no IPv4 subnet"}
	pool.bound(0, 0)
	return pool
}

func noSubnet() netip.Prefix { return netip.PrefixFrom(netip.IPv4Unspecified(), 32) }

// networkPrefix returns the subnet of a record.
func networkPrefix(rec *mastercfg.CfgNetworkState) (netip.Prefix, error) {
	addr, err := parseIPv4(rec.SubnetIP)
	if err != nil || rec.SubnetLen < minIPv4Len || rec.SubnetLen > maxIPv4Len {
		return netip.Prefix{}, fault.New(fault.Internal, "network %s: subnet %s/%d is not valid", rec.ID, rec.SubnetIP, rec.SubnetLen)
	}
	return netip.PrefixFrom(addr, int(rec.SubnetLen)).Masked(), nil
}

// bound sets the usable offsets, without the subnet and broadcast address.
func (p *IPv4Pool) bound(first, last uint) {
	p.first = max(first, 1)
	p.last = min(last, sizeOf(p.prefix)-2)
	if sizeOf(p.prefix) < 2 {
		p.last = 0
	}
}

// Lowest returns the lowest free address.
func (p IPv4Pool) Lowest() (netip.Addr, error) {
	if offset := p.nextFree(p.first); offset <= p.last {
		return p.address(offset), nil
	}
	return netip.Addr{}, exhausted("auto allocation failed - address exhaustion in %s", p.exhausted)
}

// After returns the lowest free address above addr or, if there is none or addr is not in the subnet, the lowest
// of all.
func (p IPv4Pool) After(addr netip.Addr) (netip.Addr, error) {
	if p.prefix.Contains(addr) {
		if offset := p.nextFree(offsetIn(p.prefix, addr) + 1); offset <= p.last {
			return p.address(offset), nil
		}
	}
	return p.Lowest()
}

// Taken reports whether an address is in use, or cannot be used.
func (p IPv4Pool) Taken(addr netip.Addr) bool {
	offset, err := offsetChecked(p.prefix, addr)
	return err == nil && p.nextFree(offset) != offset
}

// Check refuses a requested address that the pool never allocates. It does not check whether the address is in
// use.
func (p IPv4Pool) Check(addr netip.Addr) error {
	if p.prefix == noSubnet() {
		return fault.New(fault.Invalid, "requested address %s cannot be had in %s", addr, p.exhausted)
	}
	offset, err := offsetChecked(p.prefix, addr)
	if err != nil {
		return err
	}
	if !p.assignable(offset) {
		return fault.New(fault.Conflict, "requested address %s is reserved or out of range in %s", addr, p.exhausted)
	}
	return nil
}

// At returns the address with an offset from the subnet's base, if the pool may allocate it.
func (p IPv4Pool) At(offset uint) (netip.Addr, bool) {
	return p.address(offset), p.assignable(offset)
}

// Contains reports whether the pool may allocate the address.
func (p IPv4Pool) Contains(addr netip.Addr) bool {
	offset, err := offsetChecked(p.prefix, addr)
	return err == nil && p.assignable(offset)
}

func (p IPv4Pool) assignable(offset uint) bool {
	return offset >= p.first && offset <= p.last && p.address(offset) != p.gateway
}

// Allocated lists what is taken, as "10.7.0.1-10.7.0.4, 10.7.0.254".
func (p IPv4Pool) Allocated() string {
	return ranges(p.first, p.last, p.nextTaken, p.nextFree, p.name)
}

// Available lists what is free.
func (p IPv4Pool) Available() string {
	return ranges(p.first, p.last, p.nextFree, p.nextTaken, p.name)
}

// nextTaken returns the first offset, from one on, that cannot be allocated.
func (p IPv4Pool) nextTaken(from uint) uint {
	next := sizeOf(p.prefix)
	if from >= next {
		return next
	}
	if addr, ok := p.used.NextTaken(p.address(from)); ok && p.prefix.Contains(addr) {
		next = offsetIn(p.prefix, addr)
	}
	if first, _, ok := p.ranges.Next(p.address(from)); ok && p.prefix.Contains(first) {
		next = min(next, max(from, offsetIn(p.prefix, first)))
	}
	if gateway, reserved := p.reserved(); reserved && gateway >= from {
		next = min(next, gateway)
	}
	return next
}

// nextFree returns the first offset, from one on, that can be allocated; beyond the subnet if there is none.
func (p IPv4Pool) nextFree(from uint) uint {
	from = max(from, p.first)
	for from <= p.last {
		addr, ok := p.used.NextFree(p.address(from))
		if !ok || !p.prefix.Contains(addr) {
			break
		}
		free := offsetIn(p.prefix, addr)
		gateway, reserved := p.reserved()
		switch first, last, ok := p.ranges.Next(addr); {
		case ok && !addr.Less(first):
			from = offsetIn(p.prefix, last) + 1
		case reserved && free == gateway:
			from = free + 1
		default:
			return free
		}
	}
	return sizeOf(p.prefix)
}

// reserved returns the offset of the gateway, if there is one.
func (p IPv4Pool) reserved() (uint, bool) {
	if !p.prefix.Contains(p.gateway) {
		return 0, false
	}
	return offsetIn(p.prefix, p.gateway), true
}

func (p IPv4Pool) address(offset uint) netip.Addr {
	return toIPv4(fromIPv4(p.prefix.Addr()) + uint32(offset))
}

func (p IPv4Pool) name(offset uint) string { return p.address(offset).String() }

// offsetIn returns the offset of an address, which must be in the prefix.
func offsetIn(prefix netip.Prefix, addr netip.Addr) uint {
	return uint(fromIPv4(addr) - fromIPv4(prefix.Addr()))
}

func offsetChecked(prefix netip.Prefix, addr netip.Addr) (uint, *fault.Error) {
	if !addr.Is4() {
		return 0, fault.New(fault.Invalid, "%s is not an IPv4 address", addr)
	}
	offset := offsetIn(prefix, addr)
	if !prefix.Contains(addr) {
		return 0, fault.New(fault.Invalid, "hostIP %s is exceeding beyond subnet %s/%d, hostID %d",
			addr, prefix.Addr(), prefix.Bits(), offset).
			WithExplanation("address %s is not in subnet %s, whose addresses are %s to %s", addr, prefix,
				prefix.Addr().Next(), lastOf(prefix).Prev())
	}
	return offset, nil
}

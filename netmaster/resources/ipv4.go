package resources

import (
	"net/netip"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// wholeMapBits is the size up to which a map has a bit for every address of its
// subnet from the start, which is what the original controller wrote: a /16.
// Maps of larger subnets begin at this size and grow and shrink with what is
// taken; bits they do not have are clear.
const wholeMapBits = 1 << 16

// IPv4Pool hands out the addresses of a network, or of the range one of its
// groups has reserved. Both count addresses as offsets from the subnet's base.
//
// The subnet address, the broadcast address, the gateway and what is outside
// the range are never handed out, whatever the map says.
type IPv4Pool struct {
	used        *mastercfg.Bitmap
	prefix      netip.Prefix
	first, last uint       // offsets that may be handed out, inclusive
	gateway     netip.Addr // zero: none
	exhausted   string     // what to say when nothing is left
}

// InitNetwork fills the address fields of a new network's record.
func InitNetwork(rec *mastercfg.CfgNetworkState, subnet Subnet, gateway string) error {
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
		rec.Gateway = addr.String()
	}
	pool, err := NetworkPool(rec)
	if err == nil {
		pool.Seal()
	}
	return err
}

// Seal marks what the pool never hands out, as far as its map reaches: it is
// how a map begins, and it does nothing to one that is sound.
func (p IPv4Pool) Seal() {
	size := sizeOf(p.prefix)
	if reach := min(size, wholeMapBits); p.used.Len() < reach {
		grown := mastercfg.NewBitmap(reach)
		grown.InPlaceUnion(&p.used.BitSet)
		*p.used = grown
	}
	for offset := range p.used.Len() {
		if !p.assignable(offset) {
			p.used.Set(offset)
		}
	}
}

// NetworkPool is the pool of a network's record. Changes go to the record.
func NetworkPool(rec *mastercfg.CfgNetworkState) (IPv4Pool, error) {
	prefix, err := networkPrefix(rec)
	if err != nil {
		return IPv4Pool{}, err
	}
	first, last, err := parseRange(rec.IPAddrRange)
	if err != nil || !prefix.Contains(first) || !prefix.Contains(last) {
		return IPv4Pool{}, fault.New(fault.Internal, "network %s: address range %q is not in subnet %s",
			rec.ID, rec.IPAddrRange, prefix)
	}
	pool := IPv4Pool{used: &rec.IPAllocMap, prefix: prefix}
	pool.bound(offsetIn(prefix, first), offsetIn(prefix, last))
	pool.gateway, _ = netip.ParseAddr(rec.Gateway) // empty: none
	pool.exhausted = "subnet " + prefix.String()
	return pool, nil
}

// networkPrefix is the subnet of a record.
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

// Allocate takes the lowest free address.
func (p IPv4Pool) Allocate() (netip.Addr, error) {
	if offset := p.nextFree(p.first); offset <= p.last {
		p.used.Set(offset)
		return p.address(offset), nil
	}
	return netip.Addr{}, fault.New(fault.Exhausted, "auto allocation failed - address exhaustion in %s", p.exhausted)
}

// nextClear finds the lowest clear bit from offset on; bits the map does not have are clear.
func (p IPv4Pool) nextClear(offset uint) uint {
	if free, ok := p.used.NextClear(offset); ok {
		return free
	}
	return max(offset, p.used.Len())
}

// Taken tells whether an address is marked as handed out or reserved.
func (p IPv4Pool) Taken(addr netip.Addr) bool {
	offset, err := offsetChecked(p.prefix, addr)
	return err == nil && (p.used.Test(offset) || !p.assignable(offset))
}

// Take marks an address that was asked for by name. It does not ask whether
// somebody has it: a caller may name what it allocated a moment ago, so that
// the records of endpoints must decide.
func (p IPv4Pool) Take(addr netip.Addr) error {
	offset, err := offsetChecked(p.prefix, addr)
	if err != nil {
		return err
	}
	if !p.assignable(offset) {
		return fault.New(fault.Conflict, "requested address %s is reserved or out of range in %s", addr, p.exhausted)
	}
	p.used.Set(offset)
	return nil
}

// Release gives an address back and tells whether it was taken. Addresses the
// pool never hands out stay marked.
func (p IPv4Pool) Release(addr netip.Addr) bool {
	offset, err := offsetChecked(p.prefix, addr)
	if err != nil || !p.assignable(offset) || !p.used.Test(offset) {
		return false
	}
	p.used.Clear(offset)
	p.shrink()
	return true
}

// shrink ends a map that has grown with its last address that is taken.
func (p IPv4Pool) shrink() {
	size := p.used.Len()
	if size <= wholeMapBits {
		return
	}
	last, _ := p.used.PreviousSet(size - 1) // the first address is always taken
	if last = max(last, wholeMapBits-1); last+1 < size {
		p.used.Shrink(last)
	}
}

// Contains tells whether the pool may hand out the address.
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

// Marked visits the addresses that are taken and may be handed out.
func (p IPv4Pool) Marked(visit func(netip.Addr)) {
	for offset, ok := p.used.NextSet(p.first); ok && offset <= p.last; offset, ok = p.used.NextSet(offset + 1) {
		if p.assignable(offset) {
			visit(p.address(offset))
		}
	}
}

// nextTaken finds the first address from an offset on that nobody can get any more.
func (p IPv4Pool) nextTaken(from uint) uint {
	next, ok := p.used.NextSet(from)
	if !ok {
		next = sizeOf(p.prefix)
	}
	if gateway, reserved := p.reserved(); reserved && gateway >= from {
		next = min(next, gateway)
	}
	return next
}

// nextFree finds the first address from an offset on that can be handed out.
func (p IPv4Pool) nextFree(from uint) uint {
	next := p.nextClear(from)
	if gateway, reserved := p.reserved(); reserved && next == gateway {
		next = p.nextClear(next + 1)
	}
	return next
}

// reserved is the offset of the gateway, if there is one.
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

// offsetIn is the offset of an address that is known to be in the prefix.
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
			addr, prefix.Addr(), prefix.Bits(), offset)
	}
	return offset, nil
}

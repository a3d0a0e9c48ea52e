package resources

import (
	"net/netip"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// ReserveGroupPool takes the range of a new group out of its network and gives
// the group a map of its own, in the network's offsets, in which everything
// outside the range is taken.
func ReserveGroupPool(net *mastercfg.CfgNetworkState, group *mastercfg.EndpointGroupState, text string) error {
	first, last, err := parseRange(text)
	if err != nil || last.Less(first) {
		return fault.New(fault.Invalid, "invalid ip-pool %s", text).WithField("ipPool")
	}
	pool, err := NetworkPool(net)
	if err != nil {
		return err
	}
	if !pool.prefix.Contains(first) || !pool.prefix.Contains(last) {
		return fault.New(fault.Invalid, "bad ip-pool %s, EPG ip-pool must be a subset of network %s/%d",
			text, net.SubnetIP, net.SubnetLen).WithField("ipPool")
	}
	if taken, any := pool.firstTaken(offsetIn(pool.prefix, first), offsetIn(pool.prefix, last)); any {
		return fault.New(fault.Conflict, "ip address %s is not available", pool.address(taken)).WithField("ipPool")
	}
	group.IPPool = first.String() + "-" + last.String()
	own, err := GroupPool(net, group)
	if err == nil {
		pool.TakeAll(own)
		own.Seal()
	}
	return err
}

// firstTaken finds the first address between two offsets that cannot be handed out.
func (p IPv4Pool) firstTaken(from, to uint) (uint, bool) {
	if from < p.first {
		return from, true
	}
	taken := min(p.nextTaken(from), max(from, p.last+1))
	return taken, taken <= to
}

// TakeAll marks all addresses that another pool of the same subnet hands out,
// and tells how many of them were free.
func (p IPv4Pool) TakeAll(other IPv4Pool) (free int) {
	last := min(p.last, other.last)
	for offset := p.nextFree(max(p.first, other.first)); offset <= last; offset = p.nextFree(offset + 1) {
		p.used.Set(offset)
		free++
	}
	return free
}

// ReturnGroupPool gives the range of a group back to its network.
func ReturnGroupPool(net *mastercfg.CfgNetworkState, group *mastercfg.EndpointGroupState) error {
	pool, err := NetworkPool(net)
	if err != nil {
		return err
	}
	first, last, err := parseRange(group.IPPool)
	if err != nil {
		return fault.New(fault.Internal, "endpoint group %s: pool %q: %w", group.ID, group.IPPool, err)
	}
	for addr := first; !last.Less(addr); addr = addr.Next() {
		pool.Release(addr)
	}
	return nil
}

// GroupPool is the pool of a group that has reserved a range. Changes go to the group's record.
func GroupPool(net *mastercfg.CfgNetworkState, group *mastercfg.EndpointGroupState) (IPv4Pool, error) {
	prefix, err := networkPrefix(net)
	if err != nil {
		return IPv4Pool{}, err
	}
	first, last, err := parseRange(group.IPPool)
	if err != nil || !prefix.Contains(first) || !prefix.Contains(last) {
		return IPv4Pool{}, fault.New(fault.Internal, "endpoint group %s: pool %q is not in subnet %s", group.ID, group.IPPool, prefix)
	}
	pool := IPv4Pool{used: &group.EPGIPAllocMap, prefix: prefix, exhausted: "pool " + group.IPPool}
	pool.bound(offsetIn(prefix, first), offsetIn(prefix, last))
	return pool, nil
}

// InGroupPool tells whether an address lies in the range a group has reserved.
func InGroupPool(group *mastercfg.EndpointGroupState, addr netip.Addr) bool {
	first, last, err := parseRange(group.IPPool)
	return err == nil && !addr.Less(first) && !last.Less(addr)
}

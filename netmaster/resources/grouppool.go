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
	for addr := first; !last.Less(addr); addr = addr.Next() {
		if pool.Taken(addr) {
			return fault.New(fault.Conflict, "ip address %s is not available", addr).WithField("ipPool")
		}
	}
	for addr := first; !last.Less(addr); addr = addr.Next() {
		pool.used.Set(offsetIn(pool.prefix, addr))
	}
	group.IPPool = first.String() + "-" + last.String()
	own, err := GroupPool(net, group)
	if err == nil {
		own.Seal()
	}
	return err
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

package resources

import (
	"net/netip"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// ReserveGroupPool records the range of a new group in its record. All of it must be free in the pool of the
// network.
func ReserveGroupPool(pool IPv4Pool, group *mastercfg.EndpointGroupState, text string) error {
	first, last, err := ParsePool(text)
	if err != nil {
		return fault.New(fault.Invalid, "invalid ip-pool %s", text).WithField("ipPool").
			WithExplanation("ipPool %q: want first-last, the first one not above the last, such as 10.1.2.10-10.1.2.20", text)
	}
	if pool.prefix == noSubnet() {
		return fault.New(fault.Invalid, "bad ip-pool %s: it cannot be in %s", text, pool.exhausted).WithField("ipPool")
	}
	if !pool.prefix.Contains(first) || !pool.prefix.Contains(last) {
		return fault.New(fault.Invalid, "bad ip-pool %s, EPG ip-pool must be a subset of network %s/%d",
			text, pool.prefix.Addr(), pool.prefix.Bits()).WithField("ipPool")
	}
	if taken, any := pool.firstTaken(offsetIn(pool.prefix, first), offsetIn(pool.prefix, last)); any {
		return fault.New(fault.Conflict, "ip address %s is not available", pool.address(taken)).WithField("ipPool")
	}
	group.IPPool = first.String() + "-" + last.String()
	return nil
}

// firstTaken returns the first address between two offsets that cannot be allocated.
func (p IPv4Pool) firstTaken(from, to uint) (uint, bool) {
	if from < p.first {
		return from, true
	}
	taken := min(p.nextTaken(from), max(from, p.last+1))
	return taken, taken <= to
}

// GroupPool returns the pool of a group with a reserved range; used are the addresses in use in its network.
func GroupPool(net *mastercfg.CfgNetworkState, group *mastercfg.EndpointGroupState, used Used[netip.Addr]) (IPv4Pool, error) {
	prefix, err := networkPrefix(net)
	if err != nil {
		return IPv4Pool{}, err
	}
	first, last, err := ParsePool(group.IPPool)
	if err != nil || !prefix.Contains(first) || !prefix.Contains(last) {
		return IPv4Pool{}, fault.New(fault.Internal, "endpoint group %s: pool %q is not in subnet %s", group.ID, group.IPPool, prefix)
	}
	pool := IPv4Pool{used: used, ranges: noRanges{}, prefix: prefix, exhausted: "pool " + group.IPPool}
	pool.bound(offsetIn(prefix, first), offsetIn(prefix, last))
	return pool, nil
}

// ParsePool parses the range of a group, "a-b", or "a" for a range of one address.
func ParsePool(text string) (first, last netip.Addr, err error) {
	first, last, err = parseRange(text)
	if err == nil && last.Less(first) {
		err = fault.New(fault.Invalid, "range %s ends before it begins", text)
	}
	return first, last, err
}

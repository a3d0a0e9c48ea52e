package master

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
)

// census is who lives in a network, by group; group "" is everybody.
type census struct {
	networks map[string]*population // by network id
	groups   map[string]int         // endpoints by group id
}

type population struct {
	count     int
	addresses map[netip.Addr]string // owner
	pools     []*mastercfg.EndpointGroupState
}

// takeCensus counts the endpoints and lists the addresses they and services have.
func takeCensus(r ledger.Reader, groups []mastercfg.EndpointGroupState) (census, error) {
	c := census{map[string]*population{}, map[string]int{}}
	err := each(r, mastercfg.EndpointPrefix, func(_ string, ep mastercfg.CfgEndpointState) error {
		p := c.of(ep.NetID)
		p.count++
		for _, text := range []string{ep.IPAddress, ep.IPv6Address} {
			if addr, err := netip.ParseAddr(text); err == nil {
				p.addresses[addr] = "endpoint " + ep.ID
			}
		}
		c.groups[ep.EndpointGroupKey]++
		return nil
	})
	if err == nil {
		err = each(r, mastercfg.ServiceLBPrefix, func(_ string, s mastercfg.CfgServiceLBState) error {
			if addr, err := netip.ParseAddr(s.IPAddress); err == nil {
				c.of(mastercfg.NetworkID(s.Tenant, s.Network)).addresses[addr] = "service " + s.ID
			}
			return nil
		})
	}
	for i := range groups {
		if g := &groups[i]; g.IPPool != "" {
			p := c.of(mastercfg.NetworkID(g.TenantName, g.NetworkName))
			p.pools = append(p.pools, g)
		}
	}
	return c, err
}

func (c census) of(networkID string) *population {
	if c.networks[networkID] == nil {
		c.networks[networkID] = &population{addresses: map[netip.Addr]string{}}
	}
	return c.networks[networkID]
}

// repairAddresses makes counters and address maps agree with the endpoints.
// suspects are addresses that had no owner in the last run; those of this run
// go to the next.
func repairAddresses(tx *ledger.Tx, suspects, next map[string]bool) (findings, error) {
	groups, err := ledger.ReadAll[mastercfg.EndpointGroupState](tx, mastercfg.EndpointGroupPrefix)
	if err != nil {
		return nil, err
	}
	people, err := takeCensus(tx, groups)
	if err != nil {
		return nil, err
	}
	var found findings
	err = each(tx, mastercfg.NetworkPrefix, func(_ string, net mastercfg.CfgNetworkState) error {
		a := audit{net: &net, people: people.of(net.ID), suspects: suspects, next: next}
		if err := a.run(); err != nil {
			return err
		}
		found = append(found, a.found...)
		return putNetwork(tx, &net)
	})
	if err != nil {
		return nil, err
	}
	for i := range groups {
		g := &groups[i]
		if n := people.groups[g.ID]; g.EpCount != n {
			found = append(found, fmt.Sprintf("endpoint group %s counted %d endpoints and has %d", g.ID, g.EpCount, n))
			g.EpCount = n
		}
		if err := PutGroup(tx, g); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// audit compares one network with those who live in it.
type audit struct {
	net            *mastercfg.CfgNetworkState
	people         *population
	suspects, next map[string]bool
	found          findings
}

// space is one allocator of either family.
type addressPool interface {
	Marked(visit func(netip.Addr))
	Release(netip.Addr) bool
	Take(netip.Addr) error
}

func (a *audit) run() error {
	pool, err := resources.NetworkPool(a.net)
	if err != nil {
		return err
	}
	pool.Seal()
	total := 0
	var ranges []resources.IPv4Pool
	// The range of a group is marked as a whole in the network's map, and has a map of its own.
	for _, g := range a.people.pools {
		groupPool, err := resources.GroupPool(a.net, g)
		if err != nil {
			return err
		}
		groupPool.Seal()
		total += a.compare(groupPool, func(addr netip.Addr) bool { return groupPool.Contains(addr) })
		if n := pool.TakeAll(groupPool); n > 0 {
			a.report("%d addresses of the pool of endpoint group %s were free", n, g.ID)
		}
		ranges = append(ranges, groupPool)
	}
	reserved := func(addr netip.Addr) bool {
		return slices.ContainsFunc(ranges, func(r resources.IPv4Pool) bool { return r.Contains(addr) })
	}
	total += a.compare(pool, func(addr netip.Addr) bool { return pool.Contains(addr) && !reserved(addr) })
	if a.net.IPv6SubnetLen > 0 {
		n, err := a.compareIPv6()
		if err != nil {
			return err
		}
		total += n
	}
	if a.net.EpCount != a.people.count {
		a.report("counted %d endpoints and has %d", a.net.EpCount, a.people.count)
		a.net.EpCount = a.people.count
	}
	if a.net.EpAddrCount != total {
		a.report("counted %d addresses and has %d", a.net.EpAddrCount, total)
		a.net.EpAddrCount = total
	}
	return nil
}

// compare makes one pool agree with the owners and returns how many of its
// addresses are taken; within tells which addresses the pool is to answer for.
func (a *audit) compare(pool addressPool, within func(netip.Addr) bool) int {
	marked := map[netip.Addr]bool{}
	pool.Marked(func(addr netip.Addr) {
		if within(addr) {
			marked[addr] = true
		}
	})
	for addr, owner := range a.people.addresses {
		if !within(addr) || marked[addr] {
			continue
		}
		if pool.Take(addr) == nil {
			a.report("address %s of %s was free", addr, owner)
			marked[addr] = true
		}
	}
	for addr := range marked {
		if a.people.addresses[addr] != "" {
			continue
		}
		suspect := a.net.ID + " " + addr.String()
		if !a.suspects[suspect] {
			a.next[suspect] = true
			continue
		}
		if pool.Release(addr) {
			a.report("address %s had no owner", addr)
			delete(marked, addr)
		}
	}
	return len(marked)
}

// compareIPv6 does the same for the addresses of IPv6: the pool answers for
// those that are held, the endpoints for their own.
func (a *audit) compareIPv6() (int, error) {
	owned := func(addr netip.Addr) bool { return a.people.addresses[addr] != "" }
	pool, err := resources.NetworkPoolIPv6(a.net, owned)
	if err != nil {
		return 0, err
	}
	total := 0
	for addr, owner := range a.people.addresses {
		if !addr.Is6() {
			continue
		}
		total++
		if pool.Release(addr) {
			a.report("address %s of %s was held for another", addr, owner)
		}
	}
	return total + a.compare(pool, func(addr netip.Addr) bool { return addr.Is6() && !owned(addr) }), nil
}

func (a *audit) report(format string, args ...any) {
	a.found = append(a.found, fmt.Sprintf("network "+a.net.ID+": "+format, args...))
}

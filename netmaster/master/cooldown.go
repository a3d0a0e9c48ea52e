package master

import (
	"net/netip"
	"sync"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
)

// cooldownTime is how long an address of a pod stays unused before another pod gets it, as endpoint slices,
// caches and connection trackers still have it. It is the UDP timeout of connection trackers.
const cooldownTime = time.Minute

// Cooldown keeps addresses that pods have just released from other pods. The addresses of a network are
// assigned to pods in order, from the beginning again after the end, and not within cooldownTime as long as
// others are free. A new attempt to start a pod gets the addresses of the previous one. All this is about IPv4;
// IPv6 addresses are always assigned in order.
//
// It is in memory for a leader's term. The next leader knows which address was assigned last, and continues after it.
type Cooldown struct {
	now func() time.Time

	mu       sync.Mutex
	cooling  map[addressIn]freed
	had      map[podIn][]netip.Addr // those that cool down
	sequence []began                // in order, including those that were assigned again meanwhile
}

// began is the time at which the cooldown of an address began.
type began struct {
	addressIn
	at time.Time
}

// addressIn is an address of a network.
type addressIn struct {
	network string
	addr    netip.Addr
}

// podIn is a pod in a network. Static pods of equal manifests have the same UID on all nodes.
type podIn struct{ network, node, uid string }

func podOf(ep *mastercfg.CfgEndpointState) podIn {
	return podIn{ep.NetID, ep.HomingHost, ep.PodUID}
}

// freed is the time since which an address is free, and the pod that had it.
type freed struct {
	since time.Time
	pod   podIn
}

// NewCooldown makes the cooldown of a term.
func NewCooldown(now func() time.Time) *Cooldown {
	return &Cooldown{now: now, cooling: map[addressIn]freed{}, had: map[podIn][]netip.Addr{}}
}

// Given records that an endpoint was written to the store.
func (c *Cooldown) Given(ep *mastercfg.CfgEndpointState) {
	if ep.PodUID == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, addr := range addressesOf(ep) {
		c.end(addressIn{ep.NetID, addr})
	}
}

// Freed records that an endpoint was deleted from the store.
func (c *Cooldown) Freed(ep *mastercfg.CfgEndpointState) {
	if ep.PodUID == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	all := addressesOf(ep)
	c.had[podOf(ep)] = all
	for _, addr := range all {
		at := addressIn{ep.NetID, addr}
		c.cooling[at] = freed{now, podOf(ep)}
		c.sequence = append(c.sequence, began{at, now})
	}
	c.expire(now)
}

// expire forgets addresses whose cooldown is over.
func (c *Cooldown) expire(now time.Time) {
	for len(c.sequence) > 0 {
		first := c.sequence[0]
		if freed, cooling := c.cooling[first.addressIn]; cooling && freed.since.Equal(first.at) { // else it was assigned, and may have been freed again
			if now.Sub(first.at) < cooldownTime {
				return
			}
			c.end(first.addressIn)
		}
		c.sequence = c.sequence[1:]
	}
}

// end ends the cooldown of an address.
func (c *Cooldown) end(at addressIn) {
	if freed, cooling := c.cooling[at]; cooling {
		delete(c.cooling, at)
		delete(c.had, freed.pod)
	}
}

func addressesOf(ep *mastercfg.CfgEndpointState) (all []netip.Addr) {
	for _, text := range []string{ep.IPAddress, ep.IPv6Address} {
		if addr, err := netip.ParseAddr(text); err == nil {
			all = append(all, addr)
		}
	}
	return all
}

// formerAddresses returns the addresses that an earlier attempt to start the pod of an endpoint had; invalid if there
// are none.
func (c *Cooldown) formerAddresses(ep *mastercfg.CfgEndpointState) (v4, v6 netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire(c.now())
	for _, addr := range c.had[podOf(ep)] {
		if addr.Is4() {
			v4 = addr
		} else {
			v6 = addr
		}
	}
	return v4, v6
}

// next finds a free address of a network's pool whose cooldown is over: the first above last, or else
// the one that was freed first.
func (c *Cooldown) next(network string, last netip.Addr, p resources.IPv4Pool) (netip.Addr, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire(c.now())
	var oldest netip.Addr
	var since time.Time
	first, err := p.After(last)
	for addr := first; err == nil; {
		freed, cooling := c.cooling[addressIn{network, addr}]
		if !cooling {
			return addr, nil
		}
		if !oldest.IsValid() || freed.since.Before(since) {
			oldest, since = addr, freed.since
		}
		if addr, err = p.After(addr); addr == first {
			break
		}
	}
	return oldest, err
}

package master

import (
	"net/netip"
	"sync"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
)

// cooldownTime is how long an address of a pod stays unused before another pod gets it: endpoint slices, caches
// and connection trackers have it still. It is that of UDP in connection trackers.
const cooldownTime = time.Minute

// Cooldown keeps addresses that pods have just had from other pods. Addresses of a network are given to pods one
// after the other, from its beginning again after its end, and not within cooldownTime as long as others
// are free. What an attempt to start a pod has had, the next attempt gets again. All this is about
// addresses of IPv4; those of IPv6 are always given one after the other.
//
// A leader remembers it for its term. The next one knows which address was given last, and goes on behind it.
type Cooldown struct {
	now func() time.Time

	mu       sync.Mutex
	cooling  map[addressIn]freed
	had      map[podIn][]netip.Addr // those of it that cool down
	sequence []began                // in their order; of those that were given meanwhile, too
}

// began is when the cooldown of an address began.
type began struct {
	addressIn
	at time.Time
}

// addressIn is an address of a network.
type addressIn struct {
	network string
	addr    netip.Addr
}

// podIn is a pod, by its UID, in a network.
type podIn struct{ network, pod string }

// freed is since when an address is free, and the UID of the pod that had it.
type freed struct {
	since time.Time
	pod   string
}

// NewCooldown makes what a term remembers.
func NewCooldown(now func() time.Time) *Cooldown {
	return &Cooldown{now: now, cooling: map[addressIn]freed{}, had: map[podIn][]netip.Addr{}}
}

// Given notes that an endpoint is in the store.
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

// Freed notes that an endpoint is in the store no more.
func (c *Cooldown) Freed(ep *mastercfg.CfgEndpointState) {
	if ep.PodUID == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	all := addressesOf(ep)
	c.had[podIn{ep.NetID, ep.PodUID}] = all
	for _, addr := range all {
		at := addressIn{ep.NetID, addr}
		c.cooling[at] = freed{now, ep.PodUID}
		c.sequence = append(c.sequence, began{at, now})
	}
	c.expire(now)
}

// expire forgets addresses whose cooldown is over.
func (c *Cooldown) expire(now time.Time) {
	for len(c.sequence) > 0 {
		first := c.sequence[0]
		if freed, cooling := c.cooling[first.addressIn]; cooling && freed.since.Equal(first.at) { // else it was given, and may have been freed again
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
		delete(c.had, podIn{at.network, freed.pod})
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

// formerAddresses returns the addresses in a network that an earlier attempt to start a pod had; invalid: none.
func (c *Cooldown) formerAddresses(network, podUID string) (v4, v6 netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expire(c.now())
	for _, addr := range c.had[podIn{network, podUID}] {
		if addr.Is4() {
			v4 = addr
		} else {
			v6 = addr
		}
	}
	return v4, v6
}

// next finds a free address of a network's pool whose cooldown is over, the first above last, or else the one
// that was freed first.
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

package master

import (
	"net/netip"
	"sync"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
)

// restTime is how long an address of a pod rests before another pod gets it: endpoint slices, caches
// and connection trackers have it still. It is that of UDP in connection trackers.
const restTime = time.Minute

// Rest has pods not get what other pods have just had. Addresses of a network are given to pods one
// after the other, from its beginning again after its end, and not within restTime as long as others
// are free. What an attempt to start a pod has had, the next attempt gets again. All this is about
// addresses of IPv4; those of IPv6 are always given one after the other.
//
// A leader remembers it for its term. The next one goes on behind the highest address in use.
type Rest struct {
	now func() time.Time

	mu       sync.Mutex
	last     map[pool]netip.Addr // given to a pod
	resting  map[addressIn]rested
	had      map[podIn][]netip.Addr // that rest
	sequence []began                // in their order; of those that were given meanwhile, too
}

// began is when an address began to rest.
type began struct {
	addressIn
	at time.Time
}

// pool is where addresses are given from: a network, or a group with a range of its own.
type pool struct{ network, group string }

// addressIn is an address of a network.
type addressIn struct {
	network string
	addr    netip.Addr
}

// podIn is a pod, by its UID, in a network.
type podIn struct{ network, pod string }

// rested is since when an address rests, and the UID of the pod that had it.
type rested struct {
	since time.Time
	pod   string
}

// NewRest makes what a term remembers.
func NewRest(now func() time.Time) *Rest {
	return &Rest{now: now, last: map[pool]netip.Addr{}, resting: map[addressIn]rested{}, had: map[podIn][]netip.Addr{}}
}

// CreateEndpoint is the function of that name, in which a pod's address has rested. The caller
// says what has become of it by Given.
func (r *Rest) CreateEndpoint(tx *ledger.Tx, req *mastercfg.CreateEndpointRequest) (mastercfg.CfgEndpointState, error) {
	return createEndpoint(tx, req, r)
}

// Given notes that an endpoint is in the store.
func (r *Rest) Given(ep *mastercfg.CfgEndpointState) {
	if ep.PodUID == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, addr := range addressesOf(ep) {
		r.end(addressIn{ep.NetID, addr})
		if addr.Is4() {
			r.last[pool{ep.NetID, ep.EndpointGroupKey}] = addr
			r.last[pool{network: ep.NetID}] = addr
		}
	}
}

// Freed notes that an endpoint is in the store no more.
func (r *Rest) Freed(ep *mastercfg.CfgEndpointState) {
	if ep.PodUID == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	all := addressesOf(ep)
	r.had[podIn{ep.NetID, ep.PodUID}] = all
	for _, addr := range all {
		at := addressIn{ep.NetID, addr}
		r.resting[at] = rested{now, ep.PodUID}
		r.sequence = append(r.sequence, began{at, now})
	}
	r.expire(now)
}

// expire forgets what has rested.
func (r *Rest) expire(now time.Time) {
	for len(r.sequence) > 0 {
		first := r.sequence[0]
		if rest, resting := r.resting[first.addressIn]; resting && rest.since.Equal(first.at) { // else it was given, and may rest again
			if now.Sub(first.at) < restTime {
				return
			}
			r.end(first.addressIn)
		}
		r.sequence = r.sequence[1:]
	}
}

// end has an address rest no more.
func (r *Rest) end(at addressIn) {
	if rest, resting := r.resting[at]; resting {
		delete(r.resting, at)
		delete(r.had, podIn{at.network, rest.pod})
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

// before are the addresses in a network that an earlier attempt to start a pod had; invalid: none.
func (r *Rest) before(network, podUID string) (v4, v6 netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire(r.now())
	for _, addr := range r.had[podIn{network, podUID}] {
		if addr.Is4() {
			v4 = addr
		} else {
			v6 = addr
		}
	}
	return v4, v6
}

// next finds a free address of a pool that has rested, or the one that has for longest.
func (r *Rest) next(from pool, p resources.IPv4Pool) (netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire(r.now())
	last, known := r.last[from]
	if !known {
		last = p.HighestTaken()
	}
	var oldest netip.Addr
	var since time.Time
	first, err := p.After(last)
	for addr := first; err == nil; {
		rest, resting := r.resting[addressIn{from.network, addr}]
		if !resting {
			return addr, nil
		}
		if !oldest.IsValid() || rest.since.Before(since) {
			oldest, since = addr, rest.since
		}
		if addr, err = p.After(addr); addr == first {
			break
		}
	}
	return oldest, err
}

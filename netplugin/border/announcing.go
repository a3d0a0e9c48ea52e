package border

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// An announced address attracts packets at once. So it is announced when the switch has the flows of its object
// and, for an endpoint, the port; it is withdrawn before flows and port are removed.

// announcing decides which addresses are announced to routers. It is not safe for concurrent use.
type announcing struct {
	wanted map[pipeline.Key]pipeline.Object // endpoints of this node and services, with addresses for routers
	served map[pipeline.Key]pipeline.Object // those of them that the switch has, in the form that it has
	told   map[netip.Prefix]struct{}
	former map[netip.Prefix]struct{} // announced by an earlier run, whose flows are still in the switch; until the wanted objects are known
	losses int                       // how often an endpoint has lost its port, or an object was no longer wanted

	recalled map[pipeline.Key][]netip.Prefix // addresses announced by an earlier run, of objects that count as served because of them
}

func newAnnouncing() *announcing {
	return &announcing{wanted: map[pipeline.Key]pipeline.Object{}, served: map[pipeline.Key]pipeline.Object{}, told: map[netip.Prefix]struct{}{},
		recalled: map[pipeline.Key][]netip.Prefix{}}
}

// setAnnounced sets the prefixes that an earlier run has announced. It is called before the first change.
func (a *announcing) setAnnounced(told []netip.Prefix) {
	a.former = map[netip.Prefix]struct{}{}
	for _, p := range told {
		a.former[p] = struct{}{}
	}
	a.told = maps.Clone(a.former)
}

// take applies a change of the wanted objects, and reports whether it concerns routers.
func (a *announcing) take(c drivers.Change) (concerned bool) {
	var gone []pipeline.Key // unless the same change sets them again
	if c.Replace {
		gone = slices.Collect(maps.Keys(a.wanted))
		clear(a.wanted)
	}
	for _, key := range slices.Concat(c.Remove, keysOf(c.Set)) {
		if _, was := a.wanted[key]; was {
			gone = append(gone, key)
			delete(a.wanted, key)
		}
	}
	concerned = c.Replace || len(gone) > 0
	for _, o := range c.Set {
		if len(addressesOf(o, anyAddress)) > 0 {
			a.wanted[o.Key()], concerned = o, true
		}
	}
	for _, key := range gone {
		if a.wanted[key] == nil {
			a.forget(key)
		}
	}
	if c.Replace {
		a.adoptAnnounced()
	}
	return concerned
}

func keysOf(objects []pipeline.Object) (keys []pipeline.Key) {
	for _, o := range objects {
		keys = append(keys, o.Key())
	}
	return keys
}

// adoptAnnounced treats the prefixes of an earlier run as served.
func (a *announcing) adoptAnnounced() {
	for key, o := range a.wanted {
		isNew := func(p netip.Prefix) bool { _, was := a.former[p]; return !was }
		if told := slices.DeleteFunc(addressesOf(o, anyAddress), isNew); len(told) > 0 {
			a.served[key], a.recalled[key] = o, told
		}
	}
	a.former = nil
}

// forget records that an object is not served any more. It
// invalidates a concurrent check of what the switch has, by losses.
func (a *announcing) forget(key pipeline.Key) {
	delete(a.served, key)
	delete(a.recalled, key)
	a.losses++
}

// servedPrefixes returns the addresses of an object as they are in the switch.
func (a *announcing) servedPrefixes(key pipeline.Key) []netip.Prefix {
	if told, is := a.recalled[key]; is {
		return told
	}
	return addressesOf(a.served[key], anyAddress)
}

// unserved returns the wanted objects that the switch does not have, or has in another version.
func (a *announcing) unserved() (some []pipeline.Object) {
	for key, o := range a.wanted {
		if have := a.served[key]; have == nil || !have.Equal(o) || a.recalled[key] != nil {
			some = append(some, o)
		}
	}
	return some
}

// setServed records that the switch has objects.
func (a *announcing) setServed(objects []pipeline.Object) {
	for _, o := range objects {
		if a.wanted[o.Key()] != nil {
			a.served[o.Key()] = o
			delete(a.recalled, o.Key())
		}
	}
}

// losePort records that an endpoint loses its port. Most endpoints are in networks that are not announced.
func (a *announcing) losePort(endpointID string) {
	key := pipeline.Key{Kind: pipeline.KindEndpoint, ID: endpointID}
	if _, wanted := a.wanted[key]; wanted {
		a.forget(key)
	}
}

// takeChanges returns the prefixes to announce and to withdraw since the last call.
func (a *announcing) takeChanges() (announce, withdraw []netip.Prefix) {
	now := a.prefixes()
	for p := range now {
		if _, told := a.told[p]; !told {
			announce = append(announce, p)
		}
	}
	for p := range a.told {
		if _, stays := now[p]; !stays {
			withdraw = append(withdraw, p)
		}
	}
	a.told = now
	return announce, withdraw
}

// prefixes returns what may be announced now: addresses of wanted and served objects; those of a service only
// if an endpoint that provides it is served itself.
func (a *announcing) prefixes() map[netip.Prefix]struct{} {
	all := map[netip.Prefix]struct{}{}
	endpoints := map[netip.Addr]bool{}
	for _, key := range slices.SortedFunc(maps.Keys(a.wanted), byKind) { // endpoints first
		if a.served[key] == nil {
			continue
		}
		known := a.servedPrefixes(key)
		for _, p := range addressesOf(a.wanted[key], func(provider netip.Addr) bool { return endpoints[provider] }) {
			if slices.Contains(known, p) {
				all[p] = struct{}{}
				endpoints[p.Addr()] = endpoints[p.Addr()] || key.Kind == pipeline.KindEndpoint
			}
		}
	}
	return all
}

func byKind(a, b pipeline.Key) int { return cmp.Compare(a.Kind.Place(), b.Kind.Place()) }

func anyAddress(netip.Addr) bool { return true }

// addressesOf returns the addresses of an object for routers: those of an endpoint of this node, and those of a
// service with a provider here for clients from the uplink.
func addressesOf(o pipeline.Object, serves func(provider netip.Addr) bool) (list []netip.Prefix) {
	switch o := o.(type) {
	case pipeline.Endpoint:
		if o.Local && o.Encap == pipeline.VLAN && !o.Mode.Bridged() {
			return hostPrefixes(o)
		}
	case pipeline.Service:
		for _, p := range o.Ports {
			if o.Encap != pipeline.VLAN || p.From&pipeline.FromOutside == 0 {
				continue
			}
			at := inet.Host(p.Address)
			if !slices.Contains(list, at) && slices.ContainsFunc(p.Serving, func(s netip.AddrPort) bool { return serves(s.Addr()) }) {
				list = append(list, at)
			}
		}
	}
	return list
}

// passAnnouncements passes changes of the announced prefixes to the speaker. The caller holds the lock.
func (b *Border) passAnnouncements() {
	announce, withdraw := b.outer.takeChanges()
	if len(announce)+len(withdraw) > 0 {
		b.speaker.Announce(announce, withdraw)
		b.unsaved.Store(true)
	}
}

// refusedPause is the pause before objects that the switch has refused are checked again.
const refusedPause = 5 * time.Second

// announce announces waiting addresses once the switch has their objects.
func (b *Border) announce(ctx context.Context) error {
	again := time.NewTimer(refusedPause)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.given:
		case <-again.C:
		}
		if !b.announceServed(ctx) {
			again.Reset(refusedPause)
		}
	}
}

// announceServed waits until the switch has all wanted objects, and announces the waiting ones that it has. It
// does not wait for single objects: the driver would program these before the rules about them. It returns
// false if a retry is needed; an endpoint without a port needs none, as AddPort wakes the loop.
func (b *Border) announceServed(ctx context.Context) (complete bool) {
	b.mu.Lock()
	waiting, losses := b.outer.unserved(), b.outer.losses
	b.mu.Unlock()
	if len(waiting) == 0 {
		return true
	}
	before := b.portNumbers() // the switch has the flows of these ports after Sync
	refused := b.NetworkDriver.Sync(ctx)
	if fault.Is(refused, fault.Unavailable) {
		return false
	}
	after, served, again := b.portNumbers(), []pipeline.Object(nil), false
	complete = true
	for _, o := range waiting {
		if id, has := pipeline.PortID(o); has && (before[id] == 0 || before[id] != after[id]) {
			again = again || after[id] != 0
			continue
		}
		if refused == nil || b.NetworkDriver.Sync(ctx, o.Key()) == nil {
			served = append(served, o)
		} else {
			complete = false
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.outer.losses != losses {
		again, served = true, nil
	}
	if again {
		b.given.Send()
	}
	b.outer.setServed(served)
	b.passAnnouncements()
	return complete
}

// portNumbers returns the numbers of the ports in the switch, by endpoint; 0: not assigned yet.
func (b *Border) portNumbers() map[string]uint32 {
	numbers := map[string]uint32{}
	for _, p := range b.NetworkDriver.Ports() {
		numbers[p.EndpointID] = p.OFPort
	}
	return numbers
}

// AddPort adds a port. Its endpoint may be announced from then on.
func (b *Border) AddPort(ctx context.Context, encap pipeline.Encap, endpointID string, podNetNS int) (drivers.Port, error) {
	defer b.given.Send()
	return b.NetworkDriver.AddPort(ctx, encap, endpointID, podNetNS)
}

// RemovePort withdraws the addresses of an endpoint, and then removes its port.
func (b *Border) RemovePort(ctx context.Context, endpointID string) error {
	b.mu.Lock()
	b.outer.losePort(endpointID)
	b.passAnnouncements()
	b.mu.Unlock()
	defer b.given.Send() // the removal may have failed
	return b.NetworkDriver.RemovePort(ctx, endpointID)
}

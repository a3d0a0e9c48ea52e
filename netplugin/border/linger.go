package border

import (
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// When the last provider of a service on this node drains, the service is withdrawn. Until routers have
// processed the withdrawal, they send connections here, which are served as before.

// lingerTime is how long routers may take to process the withdrawal.
const lingerTime = time.Second

// lingering is a service that is served in its old form until it is replaced by the wanted one.
type lingering struct {
	as, wanted pipeline.Service
	until      time.Time
}

// withDraining returns the objects of a change, in which services keep their draining providers for clients
// outside. The caller holds the lock and has not applied the change yet.
func (b *Border) withDraining(c drivers.Change) []pipeline.Object {
	late := b.late
	if c.Replace {
		b.late = map[pipeline.Key]lingering{}
	}
	for _, key := range c.Remove {
		delete(b.late, key)
	}
	objects := slices.Clone(c.Set)
	for i, o := range objects {
		key := o.Key()
		wanted, is := o.(pipeline.Service)
		if !is {
			continue
		}
		before, announced := b.outer.served[key].(pipeline.Service)
		until := time.Now().Add(lingerTime)
		if held, lingers := late[key]; lingers {
			before, announced, until = held.as, true, held.until
			delete(b.late, key)
		}
		if !announced {
			continue
		}
		if as, differs := withDrainingProviders(before, wanted); differs {
			if len(b.late) == 0 {
				b.lingers.Reset(time.Until(until)) // otherwise the timer is set for an earlier one
			}
			objects[i], b.late[key] = as, lingering{as, wanted, until}
		}
	}
	return objects
}

// withDrainingProviders returns a service with the providers that have served clients outside and are now
// draining, at ports without other providers.
func withDrainingProviders(before, now pipeline.Service) (as pipeline.Service, differs bool) {
	as = now
	as.Ports = slices.Clone(now.Ports)
	for i, p := range as.Ports {
		if p.From != pipeline.FromOutside || len(p.Serving) > 0 {
			continue
		}
		at := slices.IndexFunc(before.Ports, func(was pipeline.ServicePort) bool {
			return was.From == p.From && was.Address == p.Address && was.Protocol == p.Protocol && was.Port == p.Port
		})
		if at < 0 {
			continue
		}
		serves := func(a netip.AddrPort) bool { return slices.Contains(before.Ports[at].Serving, a) }
		if slices.ContainsFunc(p.Draining, serves) {
			differs = true
			as.Ports[i].Serving = slices.DeleteFunc(slices.Clone(p.Draining), func(a netip.AddrPort) bool { return !serves(a) })
			as.Ports[i].Draining = slices.DeleteFunc(slices.Clone(p.Draining), serves)
		}
	}
	return as, differs
}

// stopServing passes the wanted form of expired services to the driver.
func (b *Border) stopServing(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := delta{}
	next := time.Duration(0)
	for key, l := range b.late {
		left := l.until.Sub(now)
		switch {
		case left <= 0:
			d.set(l.wanted)
			delete(b.late, key)
		case next == 0 || left < next:
			next = left
		}
	}
	if next > 0 {
		b.lingers.Reset(next)
	}
	b.passDelta(d)
}

package agent

import (
	"cmp"
	"slices"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/nameserver"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// planner turns dirty keys into changes; given is what the driver has.
type planner struct {
	given   map[pipeline.Key]pipeline.Object
	pending map[pipeline.Key]error // wanted, but incomplete
	names   *nameserver.Zones      // the name server's; nil: no name server
}

func newPlanner() planner {
	return planner{given: make(map[pipeline.Key]pipeline.Object), pending: make(map[pipeline.Key]error)}
}

// plan recomputes the dirty objects of the cache, and at most backlog objects of its backlog. It returns the
// change from what the driver has to what it should have; ok is false if there is none.
func (p *planner) plan(c *cache, backlog int) (change drivers.Change, ok bool) {
	p.notePartialNames(c)
	for key := range c.dirty {
		p.step(c, key, &change)
	}
	clear(c.dirty)
	for key := range c.tenants.backlog {
		if backlog == 0 {
			break
		}
		backlog--
		delete(c.tenants.backlog, key)
		p.step(c, key, &change)
	}
	p.notePartialNames(c)
	slices.SortFunc(change.Set, func(a, b pipeline.Object) int { return byKindAndID(a.Key(), b.Key()) })
	slices.SortFunc(change.Remove, func(a, b pipeline.Key) int { return byKindAndID(b, a) })
	return change, len(change.Set)+len(change.Remove) > 0
}

// step adds the write or deletion of one object to a change.
func (p *planner) step(c *cache, key pipeline.Key, change *drivers.Change) {
	object, err := c.wanted(key)
	p.name(c, key, err)
	delete(p.pending, key)
	if err != nil && !fault.Is(err, fault.NotFound) {
		p.pending[key] = err
	}
	switch before, had := p.given[key]; {
	case err != nil && had:
		change.Remove = append(change.Remove, key)
		delete(p.given, key)
		if e, is := before.(pipeline.Endpoint); is && !c.knows(e.ID) {
			change.Left = append(change.Left, e)
		}
	case err == nil && (!had || !object.Equal(before)):
		change.Set = append(change.Set, object)
		p.given[key] = object
		if e, is := before.(pipeline.Endpoint); is {
			change.Left = append(change.Left, withFormerAddresses(e, object.(pipeline.Endpoint))...)
		}
	}
}

// withFormerAddresses returns the endpoint with the addresses that it has lost, if any: the endpoint was
// deleted and recreated, and another one may have these addresses now.
func withFormerAddresses(before, now pipeline.Endpoint) []pipeline.Endpoint {
	if e := before.Without(now); e.IPv4.IsValid() || e.IPv6.IsValid() {
		return []pipeline.Endpoint{e}
	}
	return nil
}

// byKindAndID compares keys by the order in which objects are programmed; removals run in reverse.
func byKindAndID(a, b pipeline.Key) int {
	return cmp.Or(cmp.Compare(a.Kind.Place(), b.Kind.Place()), cmp.Compare(a.ID, b.ID))
}

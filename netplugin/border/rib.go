package border

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// rib is the routes in force: of each prefix the next hops that are used now. It is
// not safe for concurrent use.
//
// The way to another node of the cluster comes before what routers say of its
// endpoints. A next hop whose MAC is not known is not used while there is another one.
type rib struct {
	learned map[netip.Prefix][]netip.Addr
	direct  map[netip.Prefix]netip.Addr
	macs    map[netip.Addr]pipeline.NextHop // of next hops that have answered

	given  map[netip.Prefix]pipeline.Route
	users  map[netip.Addr]map[netip.Prefix]struct{} // who would use a next hop
	groups map[string]uint32                        // numbers of the sets of next hops in use
	shared map[uint32]int                           // routes that use a group
}

func newRIB() *rib {
	return &rib{
		learned: map[netip.Prefix][]netip.Addr{}, direct: map[netip.Prefix]netip.Addr{}, macs: map[netip.Addr]pipeline.NextHop{},
		given: map[netip.Prefix]pipeline.Route{}, users: map[netip.Addr]map[netip.Prefix]struct{}{},
		groups: map[string]uint32{}, shared: map[uint32]int{},
	}
}

// learn takes what is said of a prefix; nobody says anything: no next hops.
func (r *rib) learn(prefix netip.Prefix, hops []netip.Addr, c *drivers.Change) {
	r.forget(prefix)
	if len(hops) == 0 {
		delete(r.learned, prefix)
	} else {
		r.learned[prefix] = hops
	}
	r.settle(prefix, c)
}

// lead takes the node that has an address; invalid: none.
func (r *rib) lead(prefix netip.Prefix, node netip.Addr, c *drivers.Change) {
	if r.direct[prefix] == node {
		return
	}
	r.forget(prefix)
	if node.IsValid() {
		r.direct[prefix] = node
	} else {
		delete(r.direct, prefix)
	}
	r.settle(prefix, c)
}

// answer takes the MAC of a next hop, or that it does not answer any more.
func (r *rib) answer(hop pipeline.NextHop, answers bool, c *drivers.Change) {
	before, known := r.macs[hop.Address]
	if known == answers && (!answers || before == hop) {
		return
	}
	if answers {
		r.macs[hop.Address] = hop
		c.Set = append(c.Set, hop)
	} else {
		delete(r.macs, hop.Address)
		c.Remove = append(c.Remove, hop.Key())
	}
	if known == answers {
		return
	}
	for prefix := range r.users[hop.Address] {
		r.settle(prefix, c)
	}
}

// candidates are all next hops of a prefix that could be used.
func (r *rib) candidates(prefix netip.Prefix) []netip.Addr {
	hops := slices.Clone(r.learned[prefix])
	if node, ok := r.direct[prefix]; ok && !slices.Contains(hops, node) {
		hops = append(hops, node)
	}
	return hops
}

func (r *rib) forget(prefix netip.Prefix) {
	for _, a := range r.candidates(prefix) {
		if delete(r.users[a], prefix); len(r.users[a]) == 0 {
			delete(r.users, a)
		}
	}
}

// settle adds to a change what has become of a route.
func (r *rib) settle(prefix netip.Prefix, c *drivers.Change) {
	for _, a := range r.candidates(prefix) {
		if r.users[a] == nil {
			r.users[a] = map[netip.Prefix]struct{}{}
		}
		r.users[a][prefix] = struct{}{}
	}
	route, before := r.route(prefix), r.given[prefix]
	switch had := before.Prefix.IsValid(); {
	case len(route.NextHops) == 0 && had:
		delete(r.given, prefix)
		c.Remove = append(c.Remove, before.Key())
	case len(route.NextHops) > 0 && !slices.Equal(route.NextHops, before.NextHops):
		r.given[prefix] = r.numbered(route)
		c.Set = append(c.Set, r.given[prefix])
	default:
		return
	}
	r.release(before)
}

// route chooses the next hops of a prefix.
func (r *rib) route(prefix netip.Prefix) pipeline.Route {
	answers := func(a netip.Addr) bool { _, known := r.macs[a]; return known }
	node, direct := r.direct[prefix]
	hops := r.learned[prefix]
	if direct && (answers(node) || len(hops) == 0) {
		return pipeline.Route{Prefix: prefix, NextHops: []netip.Addr{node}}
	}
	if slices.ContainsFunc(hops, answers) {
		hops = slices.DeleteFunc(slices.Clone(hops), func(a netip.Addr) bool { return !answers(a) })
	}
	return pipeline.Route{Prefix: prefix, NextHops: hops}
}

// numbered gives a route with several next hops the number of their group: a hash, so
// that it is the same in every run, or if that is taken the next one that is not.
func (r *rib) numbered(route pipeline.Route) pipeline.Route {
	if len(route.NextHops) < 2 {
		return route
	}
	set := setOf(route.NextHops)
	number, known := r.groups[set]
	if !known {
		const size = pipeline.LastRouteGroup - pipeline.FirstRouteGroup + 1
		h := fnv.New32a()
		h.Write([]byte(set)) // never fails, as hash.Hash promises
		for number = h.Sum32() % size; r.shared[pipeline.FirstRouteGroup+number] > 0; {
			number = (number + 1) % size
		}
		number += pipeline.FirstRouteGroup
		r.groups[set] = number
	}
	r.shared[number]++
	route.Group = number
	return route
}

// release gives back the group of a route that has another one now, or none.
func (r *rib) release(route pipeline.Route) {
	if route.Group == 0 {
		return
	}
	if r.shared[route.Group]--; r.shared[route.Group] == 0 {
		delete(r.shared, route.Group)
		delete(r.groups, setOf(route.NextHops))
	}
}

func setOf(hops []netip.Addr) string {
	var raw []byte
	for _, a := range hops {
		b := a.As16()
		raw = append(raw, b[:]...)
	}
	return string(binary.BigEndian.AppendUint32(raw, uint32(len(hops))))
}

// all lists what the switch should have.
func (r *rib) all() (objects []pipeline.Object) {
	for _, hop := range r.macs {
		objects = append(objects, hop)
	}
	for _, route := range r.given {
		objects = append(objects, route)
	}
	return objects
}

package border

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// rib has the routes in use: the present next hops of each prefix. It is not safe for concurrent use.
//
// The direct route to another node of the cluster has precedence over learned routes to its endpoints. A next
// hop without a known MAC is not used while there is another one. Routes with the same next hops share a group:
// whether a next hop answers changes no route.
type rib struct {
	learned map[netip.Prefix][]netip.Addr // ascending
	direct  map[netip.Prefix]netip.Addr
	macs    map[netip.Addr]pipeline.NextHop // of next hops that have answered

	given   map[netip.Prefix]pipeline.Route
	users   map[netip.Addr]int   // number of prefixes that could use a next hop
	groups  map[string]*hopGroup // by the next hops
	numbers map[uint32]*hopGroup // the same by number
}

// hopGroup is a set of equally good next hops of some routes.
type hopGroup struct {
	hops   []netip.Addr
	used   pipeline.HopGroup // with the next hops that are used now
	routes int               // number of routes with this group
}

func newRIB() *rib {
	return &rib{
		learned: map[netip.Prefix][]netip.Addr{}, direct: map[netip.Prefix]netip.Addr{}, macs: map[netip.Addr]pipeline.NextHop{},
		given: map[netip.Prefix]pipeline.Route{}, users: map[netip.Addr]int{}, groups: map[string]*hopGroup{}, numbers: map[uint32]*hopGroup{},
	}
}

// delta has the last state of each changed object; nil: removed.
type delta map[pipeline.Key]pipeline.Object

func (d delta) set(o pipeline.Object) { d[o.Key()] = o }

func (d delta) remove(key pipeline.Key) { d[key] = nil }

// change returns the delta as a change for the driver.
func (d delta) change() (c drivers.Change) {
	for key, o := range d {
		if o == nil {
			c.Remove = append(c.Remove, key)
		} else {
			c.Set = append(c.Set, o)
		}
	}
	return c
}

// learn sets the learned next hops of a prefix; none: the prefix was withdrawn.
func (r *rib) learn(prefix netip.Prefix, hops []netip.Addr, d delta) {
	if slices.Equal(r.learned[prefix], hops) {
		return
	}
	r.count(prefix, -1)
	if len(hops) == 0 {
		delete(r.learned, prefix)
	} else {
		r.learned[prefix] = hops
	}
	r.count(prefix, 1)
	r.updateRoute(prefix, d)
}

// setNode sets the node of a host route to an endpoint; invalid: none.
func (r *rib) setNode(prefix netip.Prefix, node netip.Addr, d delta) {
	if r.direct[prefix] == node {
		return
	}
	r.count(prefix, -1)
	if node.IsValid() {
		r.direct[prefix] = node
	} else {
		delete(r.direct, prefix)
	}
	r.count(prefix, 1)
	r.updateRoute(prefix, d)
}

// setMAC sets the MAC of a next hop, or records that it does not answer.
func (r *rib) setMAC(hop pipeline.NextHop, answers bool, d delta) {
	before, known := r.macs[hop.Address]
	if known == answers && (!answers || before == hop) {
		return
	}
	if answers {
		r.macs[hop.Address] = hop
		d.set(hop)
	} else {
		delete(r.macs, hop.Address)
		d.remove(hop.Key())
	}
	if known == answers {
		return
	}
	for _, g := range r.numbers {
		if slices.Contains(g.hops, hop.Address) {
			r.updateGroup(g, d)
		}
	}
	for prefix, node := range r.direct {
		if node == hop.Address {
			r.updateRoute(prefix, d)
		}
	}
}

func (r *rib) hasMAC(a netip.Addr) bool { _, known := r.macs[a]; return known }

// count adds a prefix to its possible next hops (1), or removes it (-1).
func (r *rib) count(prefix netip.Prefix, by int) {
	one := func(a netip.Addr) {
		if r.users[a] += by; r.users[a] == 0 {
			delete(r.users, a)
		}
	}
	for _, a := range r.learned[prefix] {
		one(a)
	}
	if node, ok := r.direct[prefix]; ok {
		one(node)
	}
}

// updateRoute adds the change of a route to a delta.
func (r *rib) updateRoute(prefix netip.Prefix, d delta) {
	before := r.given[prefix]
	switch now := r.route(prefix, d); {
	case now == before:
	case now.Prefix.IsValid():
		r.given[prefix] = now
		d.set(now)
	default:
		delete(r.given, prefix)
		d.remove(before.Key())
	}
	if before.Group != 0 {
		r.leaveGroup(before.Group, d)
	}
}

// route returns the route of a prefix, with its next hop or group; zero: none.
func (r *rib) route(prefix netip.Prefix, d delta) pipeline.Route {
	node, direct := r.direct[prefix]
	hops := r.learned[prefix]
	switch {
	case direct && (r.hasMAC(node) || len(hops) == 0):
		return pipeline.Route{Prefix: prefix, NextHop: node}
	case len(hops) == 0:
		return pipeline.Route{}
	case len(hops) == 1:
		return pipeline.Route{Prefix: prefix, NextHop: hops[0]}
	}
	return pipeline.Route{Prefix: prefix, Group: r.joinGroup(hops, d)}
}

// joinGroup adds a route to the group of its next hops, and returns the group's number: a hash of the next hops, so that it is the
// same in every run, or the next free number.
func (r *rib) joinGroup(hops []netip.Addr, d delta) uint32 {
	set := setOf(hops)
	g := r.groups[set]
	if g == nil {
		const size = pipeline.LastRouteGroup - pipeline.FirstRouteGroup + 1
		h := fnv.New32a()
		h.Write([]byte(set)) // never fails, see hash.Hash
		number := h.Sum32() % size
		for r.numbers[pipeline.FirstRouteGroup+number] != nil {
			number = (number + 1) % size
		}
		g = &hopGroup{hops: hops, used: pipeline.HopGroup{Number: pipeline.FirstRouteGroup + number}}
		r.groups[set], r.numbers[g.used.Number] = g, g
		r.updateGroup(g, d)
	}
	g.routes++
	return g.used.Number
}

// leaveGroup removes a route from its group; the last one removes the group.
func (r *rib) leaveGroup(number uint32, d delta) {
	g := r.numbers[number]
	if g.routes--; g.routes == 0 {
		delete(r.numbers, number)
		delete(r.groups, setOf(g.hops))
		d.remove(g.used.Key())
	}
}

// updateGroup sets the buckets of a group: the next hops that answer or, if none does, all.
func (r *rib) updateGroup(g *hopGroup, d delta) {
	used := slices.DeleteFunc(slices.Clone(g.hops), func(a netip.Addr) bool { return !r.hasMAC(a) })
	if len(used) == 0 {
		used = g.hops
	}
	if !slices.Equal(used, g.used.NextHops) {
		g.used.NextHops = used
		d.set(g.used)
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

// all lists the objects that the switch should have.
func (r *rib) all() (objects []pipeline.Object) {
	for hop := range maps.Values(r.macs) {
		objects = append(objects, hop)
	}
	for g := range maps.Values(r.numbers) {
		objects = append(objects, g.used)
	}
	for route := range maps.Values(r.given) {
		objects = append(objects, route)
	}
	return objects
}

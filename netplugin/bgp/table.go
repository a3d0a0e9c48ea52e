package bgp

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
)

// Route is a prefix as one neighbour has announced it.
type Route struct {
	Prefix    netip.Prefix
	Neighbour netip.Addr
	NextHop   netip.Addr
}

// Change is what has become of a prefix: its next hops, ascending; none: nobody
// announces it any more.
type Change struct {
	Prefix   netip.Prefix
	NextHops []netip.Addr
}

// table is the routes in force. It is not safe for concurrent use.
type table struct {
	routes  map[netip.Prefix]map[netip.Addr]hop // by neighbour
	changed map[netip.Prefix]struct{}
	counts  map[announcer]int // routes that are not stale
}

// announcer is a neighbour that speaks of one version of IP.
type announcer struct {
	neighbour netip.Addr
	ipv4      bool
}

func announcerOf(prefix netip.Prefix, neighbour netip.Addr) announcer {
	return announcer{neighbour, prefix.Addr().Is4()}
}

// hop is a neighbour's word about a prefix.
type hop struct {
	next  netip.Addr
	stale bool // said in an earlier run, and not since
}

func newTable() table {
	return table{routes: map[netip.Prefix]map[netip.Addr]hop{}, changed: map[netip.Prefix]struct{}{}, counts: map[announcer]int{}}
}

// set takes a neighbour's word.
func (t *table) set(r Route, stale bool) {
	hops := t.routes[r.Prefix]
	if hops == nil {
		hops = map[netip.Addr]hop{}
		t.routes[r.Prefix] = hops
	}
	if hops[r.Neighbour].next != r.NextHop {
		t.changed[r.Prefix] = struct{}{}
	}
	before, known := hops[r.Neighbour]
	t.count(announcerOf(r.Prefix, r.Neighbour), known && !before.stale, !stale)
	hops[r.Neighbour] = hop{r.NextHop, stale}
}

// count keeps the number of an announcer's routes: whether one did count, and does now.
func (t *table) count(by announcer, did, does bool) {
	switch {
	case does && !did:
		t.counts[by]++
	case did && !does:
		if t.counts[by]--; t.counts[by] == 0 {
			delete(t.counts, by)
		}
	}
}

// unset takes it back.
func (t *table) unset(prefix netip.Prefix, neighbour netip.Addr) {
	hops := t.routes[prefix]
	before, known := hops[neighbour]
	if !known {
		return
	}
	t.changed[prefix] = struct{}{}
	t.count(announcerOf(prefix, neighbour), !before.stale, false)
	if delete(hops, neighbour); len(hops) == 0 {
		delete(t.routes, prefix)
	}
}

// drop takes back whatever a condition holds for.
func (t *table) drop(goes func(prefix netip.Prefix, neighbour netip.Addr, h hop) bool) {
	for prefix, hops := range t.routes {
		for neighbour, h := range hops {
			if goes(prefix, neighbour, h) {
				t.unset(prefix, neighbour)
			}
		}
	}
}

// takeChanges returns what has changed since it was last called.
func (t *table) takeChanges() []Change {
	list := make([]Change, 0, len(t.changed))
	for prefix := range t.changed {
		list = append(list, Change{prefix, t.nextHops(prefix)})
	}
	clear(t.changed)
	slices.SortFunc(list, func(a, b Change) int { return comparePrefix(a.Prefix, b.Prefix) })
	return list
}

// nextHops are those of a prefix, each once.
func (t *table) nextHops(prefix netip.Prefix) []netip.Addr {
	var list []netip.Addr
	for _, h := range t.routes[prefix] {
		list = append(list, h.next)
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// all lists the routes, by prefix and neighbour.
func (t *table) all() []Route {
	var list []Route
	for prefix, hops := range t.routes {
		for neighbour, h := range hops {
			list = append(list, Route{prefix, neighbour, h.next})
		}
	}
	slices.SortFunc(list, func(a, b Route) int {
		return cmp.Or(comparePrefix(a.Prefix, b.Prefix), a.Neighbour.Compare(b.Neighbour))
	})
	return list
}

// prefixes lists them, ascending.
func (t *table) prefixes() []netip.Prefix {
	return slices.SortedFunc(maps.Keys(t.routes), comparePrefix)
}

func comparePrefix(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

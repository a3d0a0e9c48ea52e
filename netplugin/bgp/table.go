package bgp

import (
	"cmp"
	"net/netip"
	"slices"
)

// Route is a prefix announced by one neighbour.
type Route struct {
	Prefix    netip.Prefix
	Neighbour netip.Addr
	NextHop   netip.Addr
}

// Change has the present next hops of a prefix, ascending; none if the prefix is not announced any more.
type Change struct {
	Prefix   netip.Prefix
	NextHops []netip.Addr
}

// table has the routes in force. It is not safe for concurrent use.
type table struct {
	routes  map[netip.Prefix][]hop // one per neighbour
	changed map[netip.Prefix]struct{}
	counts  map[announcer]int // number of routes that are not stale
}

// announcer is a neighbour in one IP family.
type announcer struct {
	neighbour netip.Addr
	ipv4      bool
}

func announcerOf(prefix netip.Prefix, neighbour netip.Addr) announcer {
	return announcer{neighbour, prefix.Addr().Is4()}
}

// hop is the next hop of a prefix from one neighbour.
type hop struct {
	neighbour, next netip.Addr
	stale           bool // of an earlier run, and not announced again since
}

func newTable() table {
	return table{routes: map[netip.Prefix][]hop{}, changed: map[netip.Prefix]struct{}{}, counts: map[announcer]int{}}
}

// indexOf returns the index of a neighbour's hop, or -1.
func indexOf(hops []hop, neighbour netip.Addr) int {
	return slices.IndexFunc(hops, func(h hop) bool { return h.neighbour == neighbour })
}

// set adds or replaces a neighbour's route.
func (t *table) set(r Route) { t.setHop(r.Prefix, hop{r.Neighbour, r.NextHop, false}) }

// recall is set for a route of an earlier run.
func (t *table) recall(r Route) { t.setHop(r.Prefix, hop{r.Neighbour, r.NextHop, true}) }

func (t *table) setHop(prefix netip.Prefix, now hop) {
	hops := t.routes[prefix]
	var before hop
	if at := indexOf(hops, now.neighbour); at >= 0 {
		before, hops[at] = hops[at], now
	} else {
		t.routes[prefix] = append(hops, now)
	}
	if before.next != now.next {
		t.changed[prefix] = struct{}{}
	}
	t.count(announcerOf(prefix, now.neighbour), before.next.IsValid() && !before.stale, !now.stale)
}

// count updates the number of an announcer's routes: did and does are whether a route counted before, and counts
// now.
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

// unset removes a neighbour's route.
func (t *table) unset(prefix netip.Prefix, neighbour netip.Addr) {
	t.removeHops(prefix, func(h hop) bool { return h.neighbour == neighbour })
}

// drop removes the routes for which goes returns true.
func (t *table) drop(goes func(prefix netip.Prefix, h hop) bool) {
	for prefix := range t.routes {
		t.removeHops(prefix, func(h hop) bool { return goes(prefix, h) })
	}
}

// removeHops removes the hops of a prefix for which goes returns true.
func (t *table) removeHops(prefix netip.Prefix, goes func(hop) bool) {
	hops := t.routes[prefix]
	if !slices.ContainsFunc(hops, goes) {
		return
	}
	t.changed[prefix] = struct{}{}
	left := slices.DeleteFunc(hops, func(h hop) bool {
		if !goes(h) {
			return false
		}
		t.count(announcerOf(prefix, h.neighbour), !h.stale, false)
		return true
	})
	if t.routes[prefix] = left; len(left) == 0 {
		delete(t.routes, prefix)
	}
}

// takeChanges implements Changes.
func (t *table) takeChanges(most int) (list []Change, more bool) {
	list = make([]Change, 0, min(most, len(t.changed)))
	for prefix := range t.changed {
		if len(list) == most {
			return list, true
		}
		delete(t.changed, prefix)
		list = append(list, Change{prefix, t.nextHops(prefix)})
	}
	t.changed = map[netip.Prefix]struct{}{} // ranging over a map that was large stays slow
	return list, false
}

// nextHops returns the next hops of a prefix, ascending, without duplicates.
func (t *table) nextHops(prefix netip.Prefix) []netip.Addr {
	var list []netip.Addr
	for _, h := range t.routes[prefix] {
		list = append(list, h.next)
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

// all lists the routes, unordered.
func (t *table) all() []Route {
	list := make([]Route, 0, len(t.routes))
	for prefix, hops := range t.routes {
		for _, h := range hops {
			list = append(list, Route{prefix, h.neighbour, h.next})
		}
	}
	return list
}

func comparePrefix(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

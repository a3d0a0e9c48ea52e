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
	routes  map[netip.Prefix][]hop // of each neighbour one
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
	neighbour, next netip.Addr
	stale           bool // said in an earlier run, and not since
}

func newTable() table {
	return table{routes: map[netip.Prefix][]hop{}, changed: map[netip.Prefix]struct{}{}, counts: map[announcer]int{}}
}

// said is where the word of a neighbour is among those about a prefix; -1: it has said nothing.
func said(hops []hop, neighbour netip.Addr) int {
	return slices.IndexFunc(hops, func(h hop) bool { return h.neighbour == neighbour })
}

// set takes a neighbour's word.
func (t *table) set(r Route, stale bool) {
	hops, now := t.routes[r.Prefix], hop{r.Neighbour, r.NextHop, stale}
	var before hop
	if at := said(hops, r.Neighbour); at >= 0 {
		before, hops[at] = hops[at], now
	} else {
		t.routes[r.Prefix] = append(hops, now)
	}
	if before.next != now.next {
		t.changed[r.Prefix] = struct{}{}
	}
	t.count(announcerOf(r.Prefix, r.Neighbour), before.next.IsValid() && !before.stale, !stale)
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
	t.forget(prefix, func(h hop) bool { return h.neighbour == neighbour })
}

// drop takes back whatever a condition holds for.
func (t *table) drop(goes func(prefix netip.Prefix, h hop) bool) {
	for prefix := range t.routes {
		t.forget(prefix, func(h hop) bool { return goes(prefix, h) })
	}
}

// forget takes back the words about a prefix that a condition holds for.
func (t *table) forget(prefix netip.Prefix, goes func(hop) bool) {
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

// takeChanges returns at most so many of what has changed since it was last called, and whether there is more.
func (t *table) takeChanges(most int) (list []Change, more bool) {
	list = make([]Change, 0, min(most, len(t.changed)))
	for prefix := range t.changed {
		if len(list) == most {
			return list, true
		}
		delete(t.changed, prefix)
		list = append(list, Change{prefix, t.nextHops(prefix)})
	}
	t.changed = map[netip.Prefix]struct{}{} // one that has been large takes long to look through
	return list, false
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

// all lists the routes, in no order.
func (t *table) all() []Route {
	list := make([]Route, 0, len(t.routes))
	for prefix, hops := range t.routes {
		for _, h := range hops {
			list = append(list, Route{prefix, h.neighbour, h.next})
		}
	}
	return list
}

// prefixes lists them, ascending.
func (t *table) prefixes() []netip.Prefix {
	return slices.SortedFunc(maps.Keys(t.routes), comparePrefix)
}

func comparePrefix(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

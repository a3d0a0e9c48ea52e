package bgp

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var addresses = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
var prefixes = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

func addr(text string) netip.Addr     { return netip.MustParseAddr(text) }
func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

func TestATableTellsEachChangeOnce(t *testing.T) {
	table := newTable()
	a, b, via := addr("192.0.2.1"), addr("192.0.2.2"), prefix("198.51.100.0/24")
	expect := func(step string, want ...Change) {
		t.Helper()
		got, more := table.takeChanges(math.MaxInt)
		if more {
			t.Errorf("%s: more of them than all", step)
		}
		if diff := cmp.Diff(want, got, addresses, prefixes, cmp.Transformer("none", func(c []Change) []Change { return append([]Change{}, c...) })); diff != "" {
			t.Errorf("%s:\n%s", step, diff)
		}
	}
	table.set(Route{via, b, b})
	table.set(Route{via, a, a})
	expect("two neighbours", Change{via, []netip.Addr{a, b}})
	expect("nothing new")
	table.set(Route{via, a, a})
	expect("said again")
	for range 1000 {
		table.unset(via, a)
		table.set(Route{via, a, a})
	}
	table.unset(via, b)
	expect("one flaps, one goes", Change{via, []netip.Addr{a}})
	table.set(Route{via, b, a})
	expect("the same next hop twice is one", Change{via, []netip.Addr{a}})
	table.unset(via, a)
	table.unset(via, b)
	table.unset(via, b)
	expect("nobody", Change{via, nil})
	if left := table.all(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Between two portions the reader waits for others.
func TestChangesAreTakenInPortions(t *testing.T) {
	table, a := newTable(), addr("192.0.2.1")
	const count, portion = 1000, 300
	for i := range count {
		table.set(Route{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 32), a, a})
	}
	taken := map[netip.Prefix]bool{}
	for left := count; left > 0; left -= portion {
		changes, more := table.takeChanges(portion)
		if len(changes) != min(left, portion) || more != (left > portion) {
			t.Errorf("of %d changes %d were taken, more %v", left, len(changes), more)
		}
		for _, c := range changes {
			taken[c.Prefix] = true
		}
	}
	if len(taken) != count {
		t.Errorf("%d prefixes have changed, want %d", len(taken), count)
	}
}

func TestWhatWasSaidEarlierHoldsUntilItIsDropped(t *testing.T) {
	table := newTable()
	a, b := addr("192.0.2.1"), addr("192.0.2.2")
	kept, gone, others := prefix("10.0.0.0/8"), prefix("10.1.0.0/16"), prefix("10.2.0.0/16")
	for _, r := range []Route{{kept, a, a}, {gone, a, a}, {others, b, b}} {
		table.recall(r)
	}
	table.takeChanges(math.MaxInt)
	table.set(Route{kept, a, a})
	if changes, _ := table.takeChanges(math.MaxInt); len(changes) != 0 {
		t.Errorf("said again: %v", changes)
	}
	table.drop(func(_ netip.Prefix, h hop) bool { return h.neighbour == a && h.stale })
	changes, _ := table.takeChanges(math.MaxInt)
	if diff := cmp.Diff([]Change{{gone, nil}}, changes, addresses, prefixes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]netip.Prefix{kept, others}, slices.SortedFunc(maps.Keys(table.routes), comparePrefix), prefixes); diff != "" {
		t.Error(diff)
	}
}

func TestWhatANeighbourSaysIsCountedByVersion(t *testing.T) {
	a := addr("192.0.2.1")
	four, six := Route{prefix("10.1.1.0/24"), a, a}, Route{prefix("2001:db8::/64"), a, a}
	routes := newTable()
	counts := func(wantFour, wantSix int) {
		t.Helper()
		if routes.counts[announcer{a, true}] != wantFour || routes.counts[announcer{a, false}] != wantSix {
			t.Errorf("%v, want %d and %d", routes.counts, wantFour, wantSix)
		}
	}
	routes.recall(four) // of an earlier run
	counts(0, 0)
	for range 2 {
		routes.set(four)
		routes.set(six)
	}
	counts(1, 1)
	routes.unset(six.Prefix, a)
	routes.unset(six.Prefix, a)
	counts(1, 0)
	routes.drop(func(netip.Prefix, hop) bool { return true })
	counts(0, 0)
}

package border

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

func addr(text string) netip.Addr     { return netip.MustParseAddr(text) }
func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

var (
	a, b, c  = addr("192.0.2.1"), addr("192.0.2.2"), addr("192.0.2.3")
	anywhere = prefix("0.0.0.0/0")
	pod      = prefix("10.1.1.1/32")
)

func hop(address netip.Addr) pipeline.NextHop {
	return pipeline.NextHop{Address: address, MAC: [6]byte{2, 0, 0, 0, 0, address.AsSlice()[3]}, From: [6]byte{2}}
}

// switched is what a driver has after the changes of a rib.
type switched map[pipeline.Key]pipeline.Object

func (s switched) after(t *testing.T, r *rib, do func(c *drivers.Change)) {
	t.Helper()
	var change drivers.Change
	do(&change)
	change = withoutDoubles(change)
	for _, key := range change.Remove {
		delete(s, key)
	}
	for _, o := range change.Set {
		s[o.Key()] = o
	}
	all := r.all()
	if len(all) != len(s) {
		t.Fatalf("%d objects in force, %d given", len(all), len(s))
	}
	for _, o := range all {
		if there := s[o.Key()]; there == nil || !o.Equal(there) {
			t.Fatalf("in force %v, given %v", o, there)
		}
	}
}

func (s switched) hops(p netip.Prefix) []netip.Addr {
	route, _ := s[pipeline.Route{Prefix: p}.Key()].(pipeline.Route)
	return route.NextHops
}

func TestARouteUsesTheNextHopsThatAnswer(t *testing.T) {
	r, has := newRIB(), switched{}
	learn := func(p netip.Prefix, hops ...netip.Addr) {
		t.Helper()
		has.after(t, r, func(c *drivers.Change) { r.learn(p, hops, c) })
	}
	answer := func(address netip.Addr, answers bool) {
		t.Helper()
		has.after(t, r, func(c *drivers.Change) { r.answer(hop(address), answers, c) })
	}
	lead := func(p netip.Prefix, node netip.Addr) {
		t.Helper()
		has.after(t, r, func(c *drivers.Change) { r.lead(p, node, c) })
	}
	expect := func(what string, p netip.Prefix, want ...netip.Addr) {
		t.Helper()
		if got := has.hops(p); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	learn(anywhere, a, b)
	expect("nobody has answered", anywhere, a, b)
	answer(a, true)
	expect("one has answered", anywhere, a)
	answer(b, true)
	expect("both", anywhere, a, b)
	group := has[pipeline.Route{Prefix: anywhere}.Key()].(pipeline.Route).Group
	answer(b, false)
	expect("one is dead", anywhere, a)
	answer(a, false)
	expect("both are: better one of them than none", anywhere, a, b)
	answer(a, true)
	answer(b, true)
	if now := has[pipeline.Route{Prefix: anywhere}.Key()].(pipeline.Route).Group; now != group || group == 0 {
		t.Errorf("group %d, and %d when it is back", group, now)
	}
	learn(anywhere)
	expect("withdrawn", anywhere)
	if len(r.users) != 0 || len(r.groups) != 0 || len(r.shared) != 0 {
		t.Errorf("left: %v %v %v", r.users, r.groups, r.shared)
	}

	learn(pod, a)
	lead(pod, c)
	expect("another node that does not answer", pod, a)
	answer(c, true)
	expect("the node itself", pod, c)
	lead(pod, netip.Addr{})
	expect("no such way any more", pod, a)
	learn(pod)
	lead(pod, c)
	expect("nobody else leads there", pod, c)
	lead(pod, netip.Addr{})
	expect("gone", pod)
}

func TestSetsOfNextHopsShareGroupsAndNeverANumber(t *testing.T) {
	r, has := newRIB(), switched{}
	first, second, third := prefix("10.1.0.0/16"), prefix("10.2.0.0/16"), prefix("10.3.0.0/16")
	group := func(p netip.Prefix) uint32 { return has[pipeline.Route{Prefix: p}.Key()].(pipeline.Route).Group }
	has.after(t, r, func(c *drivers.Change) { r.learn(first, []netip.Addr{a, b}, c) })
	// The number of another set is taken by something else.
	has.after(t, r, func(ch *drivers.Change) { r.learn(third, []netip.Addr{a, c}, ch) })
	number := group(third)
	has.after(t, r, func(c *drivers.Change) { r.learn(third, nil, c) })
	r.shared[number] = 1
	has.after(t, r, func(ch *drivers.Change) {
		r.learn(second, []netip.Addr{a, b}, ch)
		r.learn(third, []netip.Addr{a, c}, ch)
	})
	if group(first) != group(second) || group(third) == number || group(third) == group(first) {
		t.Errorf("groups %d, %d, %d; %d is taken", group(first), group(second), group(third), number)
	}
	for p := range r.given {
		if _, err := pipeline.New(pipeline.Config{UplinkPort: 1}).For(r.given[p], 0); err != nil {
			t.Error(err)
		}
	}
}

// All routes of a neighbour go at once when its session ends, with the agent waiting for the border.
func TestRoutesThatGoTogetherTakeTimeInProportion(t *testing.T) {
	const count, most = 50_000, time.Second // of a processor: 0.05 s; 4 if each were compared with each
	var change, left drivers.Change
	for i := range count {
		key := pipeline.Route{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)}.Key()
		change.Remove = append(change.Remove, key, key)
	}
	took := testkit.Processor(t, func() { left = withoutDoubles(change) })
	if len(left.Remove) != count || len(left.Set) != 0 || took > most {
		t.Errorf("of %d routes that go %d are removed and %d set, after %v", count, len(left.Remove), len(left.Set), took)
	}
}

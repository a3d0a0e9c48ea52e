package border

import (
	"net/netip"
	"slices"
	"testing"
	"time"

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

// switched is a driver's content after the changes of a rib.
type switched map[pipeline.Key]pipeline.Object

func (s switched) after(t *testing.T, r *rib, do func(d delta)) {
	t.Helper()
	d := delta{}
	do(d)
	change := d.change()
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
	route, there := s[pipeline.Route{Prefix: p}.Key()].(pipeline.Route)
	switch {
	case !there:
		return nil
	case route.Group == 0:
		return []netip.Addr{route.NextHop}
	}
	return s[pipeline.HopGroup{Number: route.Group}.Key()].(pipeline.HopGroup).NextHops
}

func TestARouteUsesTheNextHopsThatAnswer(t *testing.T) {
	r, has := newRIB(), switched{}
	learn := func(p netip.Prefix, hops ...netip.Addr) {
		t.Helper()
		has.after(t, r, func(d delta) { r.learn(p, hops, d) })
	}
	answer := func(address netip.Addr, answers bool) {
		t.Helper()
		has.after(t, r, func(d delta) { r.setMAC(hop(address), answers, d) })
	}
	lead := func(p netip.Prefix, node netip.Addr) {
		t.Helper()
		has.after(t, r, func(d delta) { r.setNode(p, node, d) })
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
	if len(r.users) != 0 || len(r.groups) != 0 || len(r.numbers) != 0 {
		t.Errorf("left: %v %v %v", r.users, r.groups, r.numbers)
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
	has.after(t, r, func(d delta) { r.learn(first, []netip.Addr{a, b}, d) })
	// The number of another set is assigned to something else.
	has.after(t, r, func(d delta) { r.learn(third, []netip.Addr{a, c}, d) })
	number := group(third)
	has.after(t, r, func(d delta) { r.learn(third, nil, d) })
	other := &hopGroup{used: pipeline.HopGroup{Number: number, NextHops: []netip.Addr{b, c}}, routes: 1}
	r.numbers[number] = other
	has[other.used.Key()] = other.used
	has.after(t, r, func(d delta) {
		r.learn(second, []netip.Addr{a, b}, d)
		r.learn(third, []netip.Addr{a, c}, d)
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

// A neighbour has thousands of routes, which are added and removed together, while the agent waits for the border;
// and two neighbours may have the same ones. A neighbour that does not answer changes none of them.
func TestRoutesThatComeAndGoTogetherTakeTimeInProportion(t *testing.T) {
	const count, most = 100_000, 4 * time.Second // of a processor: 0.3 s; a minute if each were compared with each
	r, has := newRIB(), 0
	all := func(hops ...netip.Addr) {
		d := delta{}
		for i := range count {
			r.learn(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32), hops, d)
		}
		has += len(d.change().Set) - len(d.change().Remove)
	}
	took := testkit.Processor(t, func() {
		r.setMAC(hop(a), true, delta{})
		all(a, b)
		for _, answers := range []bool{true, false} {
			d := delta{}
			if r.setMAC(hop(b), answers, d); len(d) != 2 {
				t.Errorf("that a next hop answers, or not, changes %d objects, want itself and a group", len(d))
			}
		}
		all()
	})
	if len(r.given) != 0 || has != 0 || took > most {
		t.Errorf("of %d routes that come and go %d are left and %d objects, after %v", count, len(r.given), has, took)
	}
}

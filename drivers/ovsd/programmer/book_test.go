package programmer

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

func endpointKey(n int) pipeline.Key {
	return pipeline.Key{Kind: pipeline.KindEndpoint, ID: fmt.Sprint(n)}
}

// wanting returns one flow in each of some places, with one of a few actions.
func wanting(deeds map[int]int) pipeline.Wants {
	var w pipeline.Wants
	for place, deed := range deeds {
		w.Flows = append(w.Flows, openflow.Flow{Table: uint8(place % 3), Priority: uint16(place),
			Actions: []openflow.Action{openflow.Output{Port: uint32(deed)}}})
	}
	return w
}

// apply applies a batch to a switch.
func apply(have map[string]openflow.PackedFlow, b batch) {
	for _, s := range b.bundle {
		m := s.message.(openflow.PackedFlowMod)
		if m.Command == openflow.FlowDeleteStrict {
			delete(have, m.Flow.Key)
		} else {
			have[m.Flow.Key] = m.Flow
		}
		s.done()
	}
}

// mustSet sets an owner's flows, and fails the test on an error.
func mustSet(t interface{ Fatal(...any) }, l *books, owner pipeline.Key, w pipeline.Wants) []conflict {
	p, err := pack(w)
	if err != nil {
		t.Fatal(err)
	}
	return l.set(owner, p)
}

// deedsOf returns the actions of a switch's flows, by place.
func deedsOf(have map[string]openflow.PackedFlow) map[int]int {
	deeds := map[int]int{}
	for _, p := range have {
		f := p.Flow()
		deeds[int(f.Priority)] = int(f.Actions[0].(openflow.Output).Port)
	}
	return deeds
}

// Whatever objects and other programs change, and however small the bundles are, a switch that applies the steps
// finally has exactly the wanted flows; of several claims to a place, that of the least id is in force.
func TestASwitchThatFollowsTheStepsHasWhatIsWanted(t *testing.T) {
	type want struct {
		owner pipeline.Key
		deed  int
	}
	rapid.Check(t, func(t *rapid.T) {
		l := newBooks(rapid.IntRange(1, 5).Draw(t, "chunk"))
		have := map[string]openflow.PackedFlow{}
		model := map[int][]want{} // by place, in the order of the first claim
		for range rapid.IntRange(1, 30).Draw(t, "moves") {
			owner := endpointKey(rapid.IntRange(0, 3).Draw(t, "owner"))
			deeds := map[int]int{}
			for _, place := range rapid.SliceOfDistinct(rapid.IntRange(1, 9), rapid.ID).Draw(t, "places") {
				deeds[place] = rapid.IntRange(1, 2).Draw(t, "deed")
			}
			mustSet(t, l, owner, wanting(deeds))
			for place := range 10 {
				deed, wanted := deeds[place]
				i := slices.IndexFunc(model[place], func(w want) bool { return w.owner == owner })
				switch {
				case wanted && i >= 0:
					model[place][i].deed = deed
				case wanted:
					model[place] = append(model[place], want{owner, deed})
				case i >= 0:
					model[place] = slices.Delete(model[place], i, i+1)
				}
			}
			switch rapid.IntRange(0, 4).Draw(t, "then") {
			case 0: // nothing is sent yet
			case 1: // the switch has lost everything
				clear(have)
				l.forget()
			case 2: // an audit finds the changes of another program
				s := &slice{turn: l.nextTurn()}
				delete(have, rapid.SampledFrom(append(slices.Sorted(maps.Keys(have)), "")).Draw(t, "gone"))
				s.flows = slices.Collect(maps.Values(have))
				l.compare(s)
				for rest, n := len(l.flows.list), 0; rest > 0; n++ {
					_, rest = l.unseen(rest, 2, s.turn)
				}
			default:
				apply(have, l.next([]pipeline.Key{owner}, never))
			}
		}
		for i := 0; l.unfinished(); i++ {
			if i > 100 {
				t.Fatalf("%d pending after 100 batches", l.pending())
			}
			apply(have, l.next(nil, never))
		}
		expected := map[int]int{}
		for place, list := range model {
			if len(list) > 0 {
				first := slices.MinFunc(list, func(a, b want) int { return strings.Compare(a.owner.ID, b.owner.ID) })
				expected[place] = first.deed
			}
		}
		if got := deedsOf(have); !maps.Equal(got, expected) || l.pending() != 0 || l.flows.wanted != len(expected) {
			t.Fatalf("switch has %v, want %v; %d pending, %d wanted", got, expected, l.pending(), l.flows.wanted)
		}
		if len(l.flows.places) != len(expected) || len(l.flows.list) != len(expected) {
			t.Fatalf("%d places for %d flows", len(l.flows.places), len(expected))
		}
	})
}

func TestOfTwoEndpointsTheOneWithTheLesserIDIsInForceWhoeverCameFirst(t *testing.T) {
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		l, have := newBooks(defaultChunk), map[string]openflow.PackedFlow{}
		first, second := endpointKey(order[0]), endpointKey(order[1])
		mustSet(t, l, first, wanting(map[int]int{7: order[0]}))
		conflicts := mustSet(t, l, second, wanting(map[int]int{7: order[1]}))
		if len(conflicts) != 1 || conflicts[0].newcomer != second || conflicts[0].present != first {
			t.Errorf("conflicts: %+v", conflicts)
		}
		expect := func(deeds map[int]int) {
			t.Helper()
			apply(have, l.next(nil, never))
			if got := deedsOf(have); !maps.Equal(got, deeds) {
				t.Errorf("order %v: switch has %v, want %v", order, got, deeds)
			}
		}
		expect(map[int]int{7: 1})
		if again := mustSet(t, l, endpointKey(2), wanting(map[int]int{7: 3})); len(again) != 0 {
			t.Errorf("a change of the one behind is reported: %+v", again)
		}
		expect(map[int]int{7: 1})
		mustSet(t, l, endpointKey(1), pipeline.Wants{})
		expect(map[int]int{7: 3}) // its removal puts the other one in force
		mustSet(t, l, endpointKey(2), pipeline.Wants{})
		expect(map[int]int{})
	}
}

func TestTwoObjectsThatWantTheSameAreNoConflict(t *testing.T) {
	l := newBooks(defaultChunk)
	first, second := wanting(map[int]int{7: 1}), wanting(map[int]int{7: 1})
	first.Flows[0].Cookie, second.Flows[0].Cookie = 1, 2
	mustSet(t, l, endpointKey(1), first)
	if conflicts := mustSet(t, l, endpointKey(2), second); len(conflicts) != 0 {
		t.Errorf("conflicts: %+v", conflicts)
	}
}

func TestThatTheLastToComeWantsTheSameHidesNoConflict(t *testing.T) {
	l := newBooks(defaultChunk)
	mustSet(t, l, endpointKey(1), wanting(map[int]int{7: 1}))
	mustSet(t, l, endpointKey(2), wanting(map[int]int{7: 2}))
	if conflicts := mustSet(t, l, endpointKey(3), wanting(map[int]int{7: 2})); len(conflicts) != 1 || conflicts[0].present != endpointKey(1) {
		t.Errorf("conflicts: %+v, want one with the first, which is in force", conflicts)
	}
}

func TestAnObjectThatWantsAPlaceTwiceLeavesItOnce(t *testing.T) {
	l := newBooks(defaultChunk)
	twice := wanting(map[int]int{7: 1})
	twice.Flows = append(twice.Flows, twice.Flows...)
	for range 2 {
		mustSet(t, l, endpointKey(1), twice)
		if l.flows.wanted != 1 {
			t.Errorf("%d flows are wanted, want 1", l.flows.wanted)
		}
		mustSet(t, l, endpointKey(1), pipeline.Wants{})
		if l.flows.wanted != 0 {
			t.Errorf("%d flows are wanted of nobody", l.flows.wanted)
		}
	}
}

func ruleKey(id string) pipeline.Key { return pipeline.Key{Kind: pipeline.KindRule, ID: id} }

func TestBetweenRulesTheOneThatDropsIsInForceWhoeverCameFirst(t *testing.T) {
	allow := wanting(map[int]int{7: 1})
	drop := wanting(map[int]int{7: 1})
	drop.Flows[0].Actions = nil
	for _, order := range [][2]pipeline.Wants{{drop, allow}, {allow, drop}} {
		l := newBooks(defaultChunk)
		mustSet(t, l, ruleKey("first"), order[0])
		mustSet(t, l, ruleKey("second"), order[1])
		have := map[string]openflow.PackedFlow{}
		apply(have, l.next(nil, never))
		for _, p := range have {
			if f := p.Flow(); len(f.Actions) != 0 {
				t.Errorf("in force: %s", f)
			}
		}
	}
}

// Clauses of conjunctions with the same match are one flow in the switch, which loses a clause when its rule is
// removed.
func TestClausesOfSeveralRulesAreUnited(t *testing.T) {
	clause := func(id uint32) pipeline.Wants {
		return pipeline.Wants{Flows: []openflow.Flow{{Table: 5, Priority: 7, Cookie: uint64(id),
			Actions: []openflow.Action{openflow.Conjunction{ID: id, Clause: 1, Clauses: 2}}}}}
	}
	l, have := newBooks(defaultChunk), map[string]openflow.PackedFlow{}
	expect := func(want string) {
		t.Helper()
		apply(have, l.next(nil, never))
		var got []string
		for _, p := range have {
			got = append(got, fmt.Sprint(p.Flow().Actions))
		}
		if fmt.Sprint(got) != want || l.pending() != 0 {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	for i, id := range []uint32{3, 1, 2} {
		mustSet(t, l, ruleKey(fmt.Sprint(i)), clause(id))
	}
	expect("[[conjunction(1,1/2) conjunction(2,1/2) conjunction(3,1/2)]]")
	mustSet(t, l, ruleKey("1"), pipeline.Wants{})
	expect("[[conjunction(2,1/2) conjunction(3,1/2)]]")
	for _, id := range []string{"0", "2"} {
		mustSet(t, l, ruleKey(id), pipeline.Wants{})
	}
	expect("[]")
}

func TestALargeDifferenceIsWrittenInAnOrderThatJudgesEveryPacketRight(t *testing.T) {
	l := newBooks(2)
	at := func(table uint8, priority uint16) openflow.Flow {
		return openflow.Flow{Table: table, Priority: priority}
	}
	old := []openflow.Flow{at(0, 1), at(0, 200), at(1, 5), at(1, 50)}
	for _, f := range old {
		packed, err := openflow.Pack(f)
		if err != nil {
			t.Fatal(err)
		}
		l.flows.found(l.flows.place(packed.Key), packed.Effect)
	}
	w := pipeline.Wants{Flows: []openflow.Flow{at(0, 9), at(20, 1), at(20, 100), at(21, 1), at(21, 50), at(0, 10)}}
	mustSet(t, l, baseKey, w)
	var got []string
	for l.unfinished() {
		b := l.next(nil, never)
		if len(b.bundle) > 2 {
			t.Errorf("a bundle of %d", len(b.bundle))
		}
		for _, s := range b.bundle {
			m := s.message.(openflow.PackedFlowMod)
			sign := "+"
			if m.Command == openflow.FlowDeleteStrict {
				sign = "-"
			}
			got = append(got, fmt.Sprintf("%s%d/%d", sign, m.Flow.Table(), m.Flow.Priority()))
			s.done()
		}
	}
	want := "[+21/50 +21/1 +20/100 +20/1 +0/10 +0/9 -0/1 -0/200 -1/5 -1/50]"
	if fmt.Sprint(got) != want {
		t.Errorf("order %v, want %s", got, want)
	}
}

func TestMetersAndGroupsComeBeforeTheFlowsThatNameThemAndGoAfter(t *testing.T) {
	l := newBooks(defaultChunk)
	w := wanting(map[int]int{7: 1})
	w.Groups = []openflow.Group{{ID: 4, Type: openflow.GroupAll}}
	w.Meters = []openflow.Meter{{ID: 5}}
	mustSet(t, l, endpointKey(1), w)
	texts := func(b batch) string {
		var list []string
		for _, s := range slices.Concat(b.meters, b.bundle, b.oldMeters) {
			list = append(list, fmt.Sprintf("%T", s.message))
			s.done()
		}
		return fmt.Sprint(list)
	}
	b := l.next(nil, never)
	if len(b.meters) != 1 || len(b.oldMeters) != 0 {
		t.Errorf("meters %v, %v", b.meters, b.oldMeters)
	}
	if got := texts(b); got != "[openflow.MeterMod openflow.GroupMod openflow.PackedFlowMod]" {
		t.Errorf("order %s", got)
	}
	mustSet(t, l, endpointKey(1), pipeline.Wants{})
	if got := texts(l.next(nil, never)); got != "[openflow.PackedFlowMod openflow.GroupMod openflow.MeterMod]" {
		t.Errorf("order %s", got)
	}
	if l.pending() != 0 || l.unfinished() {
		t.Errorf("%d pending", l.pending())
	}
}

// BGP neighbours with equally good routes may announce the same thousands of routes, all of which use one group.
func TestRoutesThatShareAGroupTakeTimeInProportion(t *testing.T) {
	const count, most = 20_000, 2 * time.Second // processor time: 0.1 s; minutes if each searched all routes of the group
	l, p := newBooks(defaultChunk), pipeline.New(pipeline.Config{UplinkPort: 1})
	hops := pipeline.HopGroup{Number: pipeline.FirstRouteGroup, NextHops: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}}
	give := func(o pipeline.Object, wanted bool) {
		w, err := p.For(o, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !wanted {
			w = pipeline.Wants{}
		}
		if conflicts := mustSet(t, l, o.Key(), w); len(conflicts) > 0 {
			t.Fatal(conflicts)
		}
	}
	took := testkit.Processor(t, func() {
		for _, wanted := range []bool{true, false} {
			give(hops, wanted)
			for i := range count {
				give(pipeline.Route{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 32), Group: hops.Number}, wanted)
			}
		}
	})
	if took > most || l.flows.wanted != 0 || l.groups.wanted != 0 {
		t.Errorf("%d routes with one group came and went in %s, want %s at most; %d flows and %d groups are left", count, took, most, l.flows.wanted, l.groups.wanted)
	}
}

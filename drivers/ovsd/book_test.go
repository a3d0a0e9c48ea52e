package ovsd

import (
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

func endpointKey(n int) pipeline.Key {
	return pipeline.Key{Kind: pipeline.KindEndpoint, ID: fmt.Sprint(n)}
}

// flowAt is a flow in one of a few places, with one of a few deeds.
func flowAt(place, deed int) openflow.Flow {
	return openflow.Flow{Table: 5, Priority: uint16(place), Actions: []openflow.Action{openflow.Output{Port: uint32(deed)}}}
}

// apply does to a switch what the steps say.
func apply(have map[string]openflow.Flow, steps []step) {
	for _, s := range steps {
		if s.remove {
			delete(have, s.place)
		} else {
			have[s.place] = s.flow
		}
	}
}

func same(a, b map[string]openflow.Flow) bool {
	if len(a) != len(b) {
		return false
	}
	for place, flow := range a {
		if other, ok := b[place]; !ok || !flow.SameEffect(other) {
			return false
		}
	}
	return true
}

// Whatever objects do, a switch that follows the steps has exactly the flows
// that are in force, and the last to claim a place is.
func TestASwitchThatFollowsTheStepsHasWhatIsWanted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBook()
		have := map[string]openflow.Flow{}
		model := map[string][]claim{} // by place, in the order of the first claim
		for range rapid.IntRange(1, 30).Draw(t, "moves") {
			owner := endpointKey(rapid.IntRange(0, 3).Draw(t, "owner"))
			wanted := map[string]openflow.Flow{}
			var flows []openflow.Flow
			for _, place := range rapid.SliceOfDistinct(rapid.IntRange(1, 4), rapid.ID).Draw(t, "places") {
				f := flowAt(place, rapid.IntRange(1, 2).Draw(t, "deed"))
				flows = append(flows, f)
				wanted[f.MatchKey()] = f
			}
			b.set(owner, flows)
			modelSet(model, owner, wanted)
			switch rapid.IntRange(0, 3).Draw(t, "then") {
			case 0: // nothing is sent yet
			case 1: // the switch has lost everything
				clear(have)
				b.seen(map[string]openflow.Flow{})
			default:
				steps := b.steps()
				apply(have, steps)
				b.done(steps)
			}
		}
		steps := b.steps()
		apply(have, steps)
		b.done(steps)
		want := map[string]openflow.Flow{}
		for place, list := range model {
			if len(list) > 0 {
				want[place] = list[len(list)-1].flow
			}
		}
		if !same(have, want) {
			t.Fatalf("switch has %v, want %v", have, want)
		}
		if again := b.steps(); len(again) != 0 || !b.clean() {
			t.Fatalf("still %d steps", len(again))
		}
	})
}

func modelSet(model map[string][]claim, owner pipeline.Key, wanted map[string]openflow.Flow) {
	for place, list := range model {
		var kept []claim
		for _, c := range list {
			f, again := wanted[place]
			switch {
			case c.owner != owner:
				kept = append(kept, c)
			case again:
				kept = append(kept, claim{owner, f})
			}
		}
		model[place] = kept
	}
	for place, f := range wanted {
		claimed := false
		for _, c := range model[place] {
			claimed = claimed || c.owner == owner
		}
		if !claimed {
			model[place] = append(model[place], claim{owner, f})
		}
	}
}

func TestTheLastClaimIsInForceAndItsEndBringsTheOtherBack(t *testing.T) {
	b := newBook()
	b.set(endpointKey(1), []openflow.Flow{flowAt(7, 1)})
	conflicts := b.set(endpointKey(2), []openflow.Flow{flowAt(7, 2)})
	if len(conflicts) != 1 || conflicts[0].newcomer != endpointKey(2) || conflicts[0].present != endpointKey(1) {
		t.Errorf("conflicts: %+v", conflicts)
	}
	if again := b.set(endpointKey(1), []openflow.Flow{flowAt(7, 3)}); len(again) != 0 {
		t.Errorf("a change of the one behind is reported: %+v", again)
	}
	expect := func(port uint32) {
		t.Helper()
		steps := b.steps()
		b.done(steps)
		if len(steps) != 1 || steps[0].remove || steps[0].flow.Actions[0] != (openflow.Output{Port: port}) {
			t.Errorf("steps: %+v", steps)
		}
	}
	expect(2)
	b.set(endpointKey(2), nil)
	expect(3)
	b.set(endpointKey(1), nil)
	if steps := b.steps(); len(steps) != 1 || !steps[0].remove {
		t.Errorf("steps: %+v", steps)
	}
}

func TestTwoObjectsThatWantTheSameAreNoConflict(t *testing.T) {
	b := newBook()
	first, second := flowAt(7, 1), flowAt(7, 1)
	first.Cookie, second.Cookie = 1, 2
	b.set(endpointKey(1), []openflow.Flow{first})
	if conflicts := b.set(endpointKey(2), []openflow.Flow{second}); len(conflicts) != 0 {
		t.Errorf("conflicts: %+v", conflicts)
	}
}

func TestDriftIsWhatDiffersFromWhatWasKnown(t *testing.T) {
	b := newBook()
	b.set(endpointKey(1), []openflow.Flow{flowAt(1, 1), flowAt(2, 1), flowAt(3, 1)})
	b.done(b.steps())
	found := map[string]openflow.Flow{}
	for _, f := range []openflow.Flow{flowAt(1, 1), flowAt(2, 9), flowAt(4, 1)} {
		found[f.MatchKey()] = f
	}
	if drifted := b.seen(found); len(drifted) != 3 { // one changed, one gone, one new
		t.Errorf("drifted: %v", drifted)
	}
	if steps := b.steps(); len(steps) != 3 {
		t.Errorf("steps: %v", steps)
	}
}

func TestBetweenRulesTheOneThatDropsIsInForceWhoeverCameFirst(t *testing.T) {
	drop := flowAt(7, 1)
	drop.Actions = nil
	for _, first := range []openflow.Flow{drop, flowAt(7, 1)} {
		second := flowAt(7, 1)
		if len(first.Actions) > 0 {
			second = drop
		}
		b := newBook()
		b.set(pipeline.Key{Kind: pipeline.KindRule, ID: "first"}, []openflow.Flow{first})
		b.set(pipeline.Key{Kind: pipeline.KindRule, ID: "second"}, []openflow.Flow{second})
		if steps := b.steps(); len(steps) != 1 || len(steps[0].flow.Actions) != 0 {
			t.Errorf("first %v: steps %+v", first, steps)
		}
	}
}

func TestAPeerIsMetWithItsFirstEndpointAndForgottenWithItsLast(t *testing.T) {
	a, b := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")
	at := func(vtep netip.Addr) pipeline.Object { return pipeline.Endpoint{ID: "x", VTEP: vtep} }
	known := peers{}
	for _, step := range []struct {
		old, now pipeline.Object
		met      netip.Addr
		count    int
	}{
		{nil, at(a), a, 1},
		{nil, at(a), netip.Addr{}, 1},
		{at(a), at(b), b, 2},
		{at(a), nil, netip.Addr{}, 1},
		{at(b), at(b), netip.Addr{}, 1},
		{nil, pipeline.Rule{}, netip.Addr{}, 1},
		{nil, pipeline.Endpoint{Local: true, VTEP: a}, netip.Addr{}, 1},
		{at(b), nil, netip.Addr{}, 0},
	} {
		if met := known.replace(step.old, step.now); met != step.met || len(known) != step.count {
			t.Errorf("%v -> %v: met %v, know %v", step.old, step.now, met, known)
		}
	}
}

package programmer

import (
	"fmt"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// ruleFlow returns a claim of a rule, with the rule's number in the cookie.
func ruleFlow(t *testing.T, number uint32, f openflow.Flow) (place string, c claim[string]) {
	t.Helper()
	f.Table, f.Cookie = 3, uint64(number)
	p, err := openflow.Pack(f)
	if err != nil {
		t.Fatal(err)
	}
	return p.Key, claim[string]{pipeline.Key{Kind: pipeline.KindTierRule, ID: fmt.Sprint(number)}, p.Effect}
}

func clause(number uint32) openflow.Flow {
	return openflow.Flow{Actions: []openflow.Action{openflow.Conjunction{ID: number, Clause: 1, Clauses: 2}}}
}

func TestWhatIsChosenDoesNotDependOnWhoCameFirst(t *testing.T) {
	plain := openflow.Flow{Goto: 9}
	for name, flows := range map[string]map[uint32]openflow.Flow{
		"clauses win over a plain flow":  {1: clause(1), 3: plain, 5: clause(5)},
		"a plain flow wins over clauses": {1: plain, 3: clause(3), 5: clause(5)},
		"what drops wins":                {1: clause(1), 3: clause(3), 5: {}},
	} {
		var place string
		var claims []claim[string]
		for number, f := range flows {
			at, c := ruleFlow(t, number, f)
			place, claims = at, append(claims, c)
		}
		want := chooseFlow(place, claims)
		for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			got := chooseFlow(place, []claim[string]{claims[order[0]], claims[order[1]], claims[order[2]]})
			if got != want {
				t.Errorf("%s: %v is %s, want %s", name, order, flowAt(place, got), flowAt(place, want))
			}
		}
	}
}

// An address that two objects claim has the same owner on every node, whichever was first.
func TestOfTwoWithOneAddressTheLesserIDHasIt(t *testing.T) {
	for _, kind := range []pipeline.Kind{pipeline.KindEndpoint, pipeline.KindService} {
		place, a := ruleFlow(t, 1, openflow.Flow{Goto: 8})
		_, b := ruleFlow(t, 2, openflow.Flow{Goto: 9})
		a.owner, b.owner = pipeline.Key{Kind: kind, ID: "a"}, pipeline.Key{Kind: kind, ID: "b"}
		for _, order := range [][]claim[string]{{a, b}, {b, a}} {
			if got := chooseFlow(place, order); got != a {
				t.Errorf("%s, %s first: %s has it", kind, order[0].owner.ID, got.owner.ID)
			}
		}
	}
}

// Clauses that do not fit into a flow are left out, the same on every node; the others remain.
func TestOfTooManyClausesTheLastAreLeftOut(t *testing.T) {
	var place string
	var claims []claim[string]
	for number := uint32(maxClauses + 200); number > 0; number-- {
		at, c := ruleFlow(t, number, clause(number))
		place, claims = at, append(claims, c)
	}
	flow := flowAt(place, chooseFlow(place, claims))
	if n := len(flow.Actions); n != maxClauses || flow.Actions[n-1].(openflow.Conjunction).ID != maxClauses {
		t.Errorf("%d clauses", n)
	}
	if _, err := openflow.Pack(flow); err != nil {
		t.Error(err)
	}
}

// Rules that share a flow do not conflict.
func TestClausesOfTwoRulesAreNoConflict(t *testing.T) {
	flows := newBook(flowKind())
	for number := uint32(1); number < 4; number++ {
		place, c := ruleFlow(t, number, clause(number))
		if conflicts := flows.set(c.owner, []entry[string]{{place, c.thing}}); len(conflicts) > 0 {
			t.Errorf("clause %d: %v", number, conflicts)
		}
	}
	place, c := ruleFlow(t, 9, openflow.Flow{Goto: 9})
	if conflicts := flows.set(c.owner, []entry[string]{{place, c.thing}}); len(conflicts) != 1 {
		t.Errorf("a flow that is no clause: %v", conflicts)
	}
}

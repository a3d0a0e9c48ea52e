package programmer

import (
	"fmt"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
	"github.com/contiv/netplugin/utils/fault"
)

// clauseCompiler gives every rule a clause in one flow.
type clauseCompiler struct{ ruleCompiler }

func (clauseCompiler) For(o pipeline.Object, _ uint32) (w pipeline.Wants, err error) {
	flow := clause(o.(pipeline.TierRule).Number)
	flow.Cookie = cookie.New(cookie.TierRule, o.Key().ID)
	w.Flows = []openflow.Flow{flow}
	return w, nil
}

// If there are more rules than a flow has room for, those left out are reported, whichever came last, until there
// is room.
func TestRulesThatAreLeftOutAreToldUntilThereIsRoom(t *testing.T) {
	h := newHarness(t, func(h *harness) { h.compiler = clauseCompiler{} })
	numbered := func(number int) pipeline.TierRule {
		return pipeline.TierRule{ID: fmt.Sprint("r", number), Number: uint32(number)}
	}
	var all []pipeline.Object
	for number := range maxClauses {
		all = append(all, numbered(number+2))
	}
	h.inbox.put(drivers.Change{Replace: true, Set: all})
	h.connect(newFakeSwitch())
	last, first := numbered(maxClauses+1).Key(), numbered(1)
	check := func(when string, crowded bool) {
		t.Helper()
		all := h.sync()
		if err := h.sync(last); fault.Is(err, fault.TooLarge) != crowded || fault.Is(all, fault.TooLarge) != crowded {
			t.Errorf("%s: of the rule with the highest number %v, of all %v", when, err, all)
		}
		if err := h.sync(first.Key()); err != nil {
			t.Errorf("%s: of the one with the lowest: %v", when, err)
		}
		if in := h.progress().InSync; in == crowded {
			t.Errorf("%s: in sync: %v", when, in)
		}
	}
	if err := h.sync(); err != nil {
		t.Fatal(err)
	}
	h.inbox.put(drivers.Change{Set: []pipeline.Object{first}}) // the last to be set, displaces another one
	check("one too many", true)
	h.inbox.put(drivers.Change{Remove: []pipeline.Key{numbered(7).Key()}})
	check("there is room", false)
}

// Services have equal flows for answers of pods. No rule is left out because of them.
func TestEqualFlowsThatAreNoClausesDoNotOverflow(t *testing.T) {
	c := newOverflows()
	p := &place[string]{}
	for number := range uint32(maxClauses + 1) {
		at, one := ruleFlow(t, number, openflow.Flow{Goto: 9})
		p.name, p.claims = at, append(p.claims, one)
	}
	c.mark([]*place[string]{p})
	if len(c.places) > 0 || len(c.settle()) > 0 {
		t.Error("the flow is overfull")
	}
}

// A change of one overfull place does not process the others, which stay as they were.
func TestOnlyChangedFlowsAreLookedAtForOverflow(t *testing.T) {
	c := newOverflows()
	overfull := func(first uint32) *place[string] {
		p := &place[string]{}
		for number := range uint32(maxClauses + 1) {
			at, one := ruleFlow(t, first+number, clause(first+number))
			p.name, p.claims = at, append(p.claims, one)
		}
		return p
	}
	quiet, busy := overfull(1), overfull(100_000)
	c.mark([]*place[string]{quiet, busy})
	if fresh := c.settle(); len(fresh) != 2 {
		t.Fatalf("left out of two flows: %v", fresh)
	}
	quiet.claims = nil // without a mark: if it were processed, no rule would be left out
	busy.claims = busy.claims[1:]
	c.mark([]*place[string]{busy})
	if fresh := c.settle(); len(fresh) != 0 || len(c.out) != 1 {
		t.Errorf("%d are left out, %v now first: want the one of the place that has not changed", len(c.out), fresh)
	}
	c.mark([]*place[string]{quiet})
	if c.settle(); len(c.out) != 0 || len(c.places) != 0 {
		t.Errorf("no flow is overfull: %v of %d places", c.out, len(c.places))
	}
}

package programmer

import (
	"slices"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
	"github.com/contiv/netplugin/utils/fault"
)

// A refused deletion remains refused until the place is as wanted, for flows and groups; also if another program
// has deleted it.
func TestARefusedDeletionIsSettledWhenThePlaceIs(t *testing.T) {
	h := &harness{t: t, inbox: newInbox(), chunk: defaultChunk, ports: noPorts{}, compiler: ruleCompiler{}}
	p := h.programmer()
	p.conn.sw, p.conn.loaded = newFakeSwitch(), true
	flow := openflow.Flow{Priority: 7, Match: openflow.Match{openflow.InPort(1)}}
	packed, err := openflow.Pack(flow)
	if err != nil {
		t.Fatal(err)
	}
	p.books.flows.found(p.books.flows.place(packed.Key), packed.Effect)
	p.books.groups.found(p.books.groups.place(numbered(5)), openflow.Group{ID: 5})
	for _, place := range []string{packed.Key, numbered(5)} {
		p.refused.note(refused{{Kind: kindUnwanted, ID: place}: {err: fault.New(fault.Internal, "no")}}, time.Now())
	}
	p.take()
	if len(p.refused) != 2 {
		t.Errorf("refused: %v, want the flow and the group", p.refused)
	}
	p.books.flows.setAbsent(p.books.flows.places[packed.Key])
	p.books.groups.setAbsent(p.books.groups.places[numbered(5)])
	p.take()
	if _, retry := p.refused.nextTry(); retry || p.books.epoch.withheld {
		t.Errorf("refused: %v, epoch withheld: %v, though nothing is left", p.refused, p.books.epoch.withheld)
	}
}

// Only a refused place that affects the evaluation of connections withdraws the epoch.
func TestWhatJudgesNothingLeavesTheEpoch(t *testing.T) {
	const known, firstOut, forward = 34, 35, 26
	for _, c := range []struct {
		name  string
		table uint8
		there bool
		want  bool
	}{
		{"another class", 0, true, true}, {"a new endpoint", 0, false, false},
		{"a drop among rules", firstOut, false, true}, {"an old guard", known, true, true}, {"the way out", forward, true, false},
	} {
		packed, err := openflow.Pack(openflow.Flow{Table: c.table, Priority: 7})
		if err != nil {
			t.Fatal(err)
		}
		if got := affectsJudgement(&place[string]{name: packed.Key, there: c.there}); got != c.want {
			t.Errorf("%s: judges %v", c.name, got)
		}
	}
	p := (&harness{t: t, inbox: newInbox(), chunk: defaultChunk, ports: noPorts{}, compiler: ruleCompiler{}}).programmer()
	p.books.groups.found(p.books.groups.place(numbered(5)), openflow.Group{ID: 5})
	p.refused.note(refused{{Kind: kindUnwanted, ID: numbered(5)}: {err: fault.New(fault.Internal, "no")}}, time.Now())
	p.take()
	if p.books.epoch.withheld {
		t.Error("a group that cannot be removed takes the epoch away")
	}
}

// tierCompiler gives a tier's rule a flow with the rank as priority, and an epoch one with its number as priority.
type tierCompiler struct{ ruleCompiler }

func (tierCompiler) For(o pipeline.Object, _ uint32) (w pipeline.Wants, err error) {
	switch o := o.(type) {
	case pipeline.TierRule:
		w.Flows = []openflow.Flow{{Priority: o.Rank, Cookie: cookie.New(cookie.TierRule, o.ID), Match: openflow.Match{openflow.InPort(o.Number)}}}
	case pipeline.Epoch:
		w.Flows = []openflow.Flow{{Priority: uint16(o.Number), Cookie: cookie.New(cookie.Epoch, "")}}
	}
	return w, nil
}

// Connections admitted in an epoch are not evaluated again. While the switch refuses a rule there is no epoch, and
// the next one is written once the rule is accepted or removed.
func TestThereIsNoEpochWhileARuleIsRefused(t *testing.T) {
	denial := pipeline.TierRule{ID: "denial", Rank: refusedPriority, Verdict: pipeline.Deny, Number: 1}
	for _, c := range []struct {
		name string
		mend func(h *harness, sw *fakeSwitch)
	}{
		{"it is taken at last", func(_ *harness, sw *fakeSwitch) { sw.set(func() { sw.tolerant = true }) }},
		{"it is taken away", func(h *harness, _ *fakeSwitch) {
			h.inbox.put(drivers.Change{Remove: []pipeline.Key{denial.Key()}})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, func(h *harness) { h.compiler = tierCompiler{} })
			sw := newFakeSwitch()
			other := pipeline.TierRule{ID: "other", Rank: 500, Number: 2}
			h.inbox.put(drivers.Change{Replace: true, Set: []pipeline.Object{other, pipeline.Epoch{Number: 901}}})
			h.connect(sw)
			if err := h.sync(); err != nil || !sw.has(901) {
				t.Fatalf("no epoch to begin with, error %v", err)
			}
			other.Rank = 501
			h.inbox.put(drivers.Change{Set: []pipeline.Object{denial, other, pipeline.Epoch{Number: 902}}})
			if err := h.sync(); err == nil {
				t.Error("nothing is refused")
			}
			if sw.has(901) || sw.has(902) || !sw.has(501) {
				t.Errorf("an epoch without a rule that denies: %v", sw.priorities())
			}
			h.inbox.put(drivers.Change{Set: []pipeline.Object{pipeline.Epoch{Number: 903}}})
			if err := h.sync(); err == nil || sw.has(903) {
				t.Errorf("another epoch without the rule: %v, error %v", sw.priorities(), err)
			}
			c.mend(h, sw)
			h.eventually("the epoch is there", func() bool { return sw.has(903) && h.progress().InSync })
			order := sw.priorities()
			if slices.Contains(order, 902) || order[len(order)-1] != 903 {
				t.Errorf("order %v", order)
			}
		})
	}
}

package programmer

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// sharingCompiler gives a rule a clause in a flow that all rules share, with the priority shared, and the flow of
// ruleCompiler if it has a destination port.
type sharingCompiler struct {
	ruleCompiler
	shared uint16
}

func (c sharingCompiler) For(o pipeline.Object, _ uint32) (w pipeline.Wants, err error) {
	if r, ok := o.(pipeline.Rule); ok {
		cookie, number := uint64(r.SrcPort), uint32(r.SrcPort)
		w.Flows = []openflow.Flow{{Priority: c.shared, Cookie: cookie, Actions: []openflow.Action{openflow.Conjunction{ID: number, Clause: 1, Clauses: 2}}}}
		if r.DstPort != 0 {
			w.Flows = append(w.Flows, openflow.Flow{Priority: r.DstPort, Cookie: cookie, Match: openflow.Match{openflow.InPort(number)}})
		}
	}
	return w, nil
}

// clauses returns the number of clauses of the flow with a priority.
func (s *fakeSwitch) clauses(priority uint16) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flows {
		if f.Priority() == priority {
			return len(f.Flow().Actions)
		}
	}
	return 0
}

// The own flow of the first of two rules is refused. The flow that it shares with the other rule is written
// nevertheless, now and when the other one changes; a large difference is written meanwhile.
func TestWhatIsSharedWithARefusedObjectIsWritten(t *testing.T) {
	const clauses = 300
	h := newHarness(t, func(h *harness) { h.compiler, h.chunk = sharingCompiler{shared: clauses}, 10 })
	sw := newFakeSwitch()
	refused, good := rule(0, refusedPriority), rule(1, 50)
	h.inbox.put(drivers.Change{Replace: true, Set: []pipeline.Object{refused, good}})
	h.connect(sw)
	if err := h.sync(good.Key()); err != nil || sw.clauses(clauses) != 2 {
		t.Errorf("%d clauses, error %v", sw.clauses(clauses), err)
	}
	if err := h.sync(refused.Key()); err == nil || !strings.Contains(err.Error(), "rule r0") {
		t.Errorf("error %v", err)
	}
	const more = 200
	h.inbox.put(drivers.Change{Set: manyRules(more + 2)[2:]})
	if err := h.sync(good.Key()); err != nil {
		t.Error(err)
	}
	if err := h.sync(); err == nil {
		t.Error("nothing is refused")
	}
	if flows, bundles := sw.count(); flows != more+3 || sw.clauses(clauses) != more+2 || bundles > 2*more {
		t.Errorf("%d flows, %d clauses, in %d bundles", flows, sw.clauses(clauses), bundles)
	}
}

// A flow that several objects share is refused. Exactly these objects get the error, and a difference of many
// bundles does not wait for it.
func TestTheRefusalOfWhatIsSharedIsToldToAllWhoShareIt(t *testing.T) {
	h := newHarness(t, func(h *harness) { h.compiler, h.chunk = sharingCompiler{shared: refusedPriority}, 10 })
	sw := newFakeSwitch()
	all := manyRules(100)
	h.inbox.put(drivers.Change{Replace: true, Set: all})
	h.connect(sw)
	for _, o := range []pipeline.Object{all[0], all[99]} {
		if err := h.sync(o.Key()); err == nil || !strings.Contains(err.Error(), "rule "+o.Key().ID+": ") {
			t.Errorf("%v: error %v", o.Key(), err)
		}
	}
	if err := h.sync(); err == nil || !strings.Contains(err.Error(), "rule r0, rule r1, rule r10 and 97 more: ") {
		t.Errorf("error %v", err)
	}
	if flows, _ := sw.count(); flows != 101 {
		t.Errorf("%d flows", flows)
	}
	sw.set(func() { sw.tolerant = true })
	h.eventually("all is in the switch", func() bool { return sw.clauses(refusedPriority) == 100 && h.progress().InSync })
}

// A refusal counts for the objects that now want the place. The refusal of earlier ones is dropped: no Sync waits
// for it.
func TestARefusalIsForgottenWhenOthersWantThePlace(t *testing.T) {
	h := &harness{t: t, inbox: newInbox(), chunk: defaultChunk, ports: noPorts{}, compiler: sharingCompiler{shared: refusedPriority}}
	p := h.programmer()
	p.conn.sw = newFakeSwitch()
	p.take()
	p.load(t.Context())
	only, other := rule(0, 0), rule(1, 0)
	for _, step := range []struct {
		name   string
		change drivers.Change
		want   string // kind of the refused object
	}{
		{"one wants it", drivers.Change{Replace: true, Set: []pipeline.Object{only}}, "rule"},
		{"two do", drivers.Change{Set: []pipeline.Object{other}}, "shared"},
		{"three do", drivers.Change{Set: []pipeline.Object{rule(2, 0)}}, "shared"},
		{"two do again", drivers.Change{Remove: []pipeline.Key{rule(2, 0).Key()}}, "shared"},
		{"the other one does", drivers.Change{Remove: []pipeline.Key{only.Key()}}, "rule"},
		{"nobody does", drivers.Change{Remove: []pipeline.Key{other.Key()}}, ""},
	} {
		h.inbox.put(step.change)
		p.take()
		if len(p.refused) != 0 {
			t.Errorf("%s: %v is refused still", step.name, p.refused)
		}
		p.write(t.Context())
		got := ""
		for owner := range p.refused {
			got += string(owner.Kind)
		}
		if got != step.want {
			t.Errorf("%s: %q is refused, want %q", step.name, got, step.want)
		}
	}
}

package programmer

import (
	"slices"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// anyFlow returns one of the flows with a priority.
func (s *fakeSwitch) anyFlow(priority uint16) openflow.PackedFlow {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flows {
		if f.Priority() == priority {
			return f
		}
	}
	return openflow.PackedFlow{}
}

// There are more flows than one slice of the audit has.
func TestAnAuditInSlicesFindsWhatIsChangedLostAndForeign(t *testing.T) {
	const count = 3 * sliceSize
	h, sw := newHarness(t, func(h *harness) { h.audit = 20 * time.Millisecond }), newFakeSwitch()
	h.inbox.put(drivers.Change{Replace: true, Set: manyRules(count)})
	h.connect(sw)
	if err := h.sync(); err != nil {
		t.Fatal(err)
	}
	changed := sw.anyFlow(50)
	wrong := changed.Flow()
	wrong.Goto = 7
	sw.put(wrong)
	h.eventually("a changed flow is back", func() bool {
		sw.mu.Lock()
		defer sw.mu.Unlock()
		return sw.flows[changed.Key] == changed
	})
	lost := sw.anyFlow(50)
	sw.set(func() { delete(sw.flows, lost.Key) })
	h.eventually("a lost flow is back", func() bool {
		sw.mu.Lock()
		defer sw.mu.Unlock()
		return sw.flows[lost.Key] == lost
	})
	sw.put(openflow.Flow{Table: 9, Priority: 77, Cookie: 5})
	sw.put(openflow.Flow{Priority: 78, Cookie: cookie.New(cookie.Policy, "of an object that is gone")})
	h.eventually("foreign flows are removed", func() bool { return !sw.has(77) && !sw.has(78) })
	h.eventually("all is well", func() bool { return h.progress().InSync })
	if flows, _ := sw.count(); flows != count+1 {
		t.Errorf("%d flows", flows)
	}
}

// For flows that are written while a slice is fetched, the write counts, not the slice.
func TestAnAuditDoesNotUndoWhatIsWrittenMeanwhile(t *testing.T) {
	h, sw := newHarness(t, func(h *harness) { h.audit = time.Millisecond }), newFakeSwitch()
	h.inbox.put(drivers.Change{Replace: true, Set: manyRules(200)})
	h.connect(sw)
	if err := h.sync(); err != nil {
		t.Fatal(err)
	}
	_, before := sw.count()
	const changes = 300
	for i := range changes {
		change := drivers.Change{Set: []pipeline.Object{rule(7, uint16(60+i%2))}}
		if i%5 == 4 {
			change = drivers.Change{Remove: []pipeline.Key{rule(7, 0).Key()}}
		}
		h.inbox.put(change)
		if err := h.sync(); err != nil {
			t.Fatal(err)
		}
	}
	if _, after := sw.count(); after-before != changes {
		t.Errorf("%d changes took %d bundles", changes, after-before)
	}
}

// Flows that an audit found missing are looked for while the next audit already runs.
func TestTheNextAuditDoesNotDisturbWhatTheLastOneFoundLost(t *testing.T) {
	h := &harness{t: t, inbox: newInbox(), chunk: defaultChunk, audit: time.Hour, ports: noPorts{}, compiler: ruleCompiler{}}
	p, sw := h.programmer(), newFakeSwitch()
	h.inbox.put(drivers.Change{Replace: true, Set: manyRules(10)})
	p.connect(sw)
	p.take()
	for p.work(t.Context()) {
	}
	for complete := false; !complete; {
		p.auditor.begin(t.Context(), sw, p.books)
		complete = p.auditor.end(<-p.auditor.results, p.conn.sw, p.books)
	}
	p.auditor.begin(t.Context(), sw, p.books)
	for p.auditor.findLost(p.books) {
	}
	if p.books.unfinished() {
		t.Error("flows that are in the switch are to be written again")
	}
	<-p.auditor.results
}

// The switch loses its flows while the connection stays. What an audit has read before does not count for the
// present flows.
func TestAnAuditFromBeforeTheFlowsWereLostIsNotBelieved(t *testing.T) {
	h := &harness{t: t, inbox: newInbox(), chunk: defaultChunk, audit: time.Hour, ports: noPorts{}, compiler: ruleCompiler{}}
	p, sw := h.programmer(), newFakeSwitch()
	h.inbox.put(drivers.Change{Replace: true, Set: manyRules(10)})
	p.connect(sw)
	p.take()
	finish := func() {
		for p.work(t.Context()) {
		}
	}
	finish()
	before, _ := sw.count()
	p.auditor.begin(t.Context(), sw, p.books)
	old := <-p.auditor.results

	sw.set(func() { clear(sw.flows) })
	p.conn.loaded = false
	p.work(t.Context()) // reads what is left
	p.auditor.end(old, p.conn.sw, p.books)
	finish()
	if now, _ := sw.count(); now != before || before < 10 {
		t.Errorf("%d flows, want %d", now, before)
	}
	p.auditor.begin(t.Context(), sw, p.books)
	if !p.auditor.end(<-p.auditor.results, p.conn.sw, p.books) {
		t.Error("the next audit is not believed either")
	}
}

// While a large difference is written, a change for which a Sync waits is in the next bundle but one.
func TestAChangeOvertakesALargeDifference(t *testing.T) {
	h, sw := newHarness(t, func(h *harness) { h.chunk = 10 }), newFakeSwitch()
	h.inbox.put(drivers.Change{Replace: true})
	h.connect(sw)
	if err := h.sync(); err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	sw.set(func() { sw.gate = gate })
	h.inbox.put(drivers.Change{Set: manyRules(200)})
	gate <- struct{}{} // the first bundle of twenty is being written
	_, before := sw.count()
	late := rule(150, 50) // among the last ones
	h.inbox.put(drivers.Change{Set: []pipeline.Object{rule(300, 60)}})
	both := h.inbox.wait(rule(300, 60).Key(), late.Key())
	bundles := 0
	var err error
	for waiting := true; waiting; bundles++ {
		select {
		case err = <-both.done: // the gate may already be waiting again
			waiting = false
		default:
			select {
			case gate <- struct{}{}:
			case err = <-both.done:
				waiting = false
			}
		}
	}
	if err != nil {
		t.Error(err)
	}
	if _, after := sw.count(); after-before > 4 || !sw.has(60) {
		t.Errorf("after %d bundles", after-before)
	}
	sw.set(func() { sw.gate = nil })
	close(gate)
	if err := h.sync(); err != nil {
		t.Fatal(err)
	}
	if flows, _ := sw.count(); flows != 202 {
		t.Errorf("%d flows", flows)
	}
}

func TestAnObjectWithASliceMayBeChanged(t *testing.T) {
	h, sw := newHarness(t), newFakeSwitch()
	for _, addresses := range [][]string{{"a"}, {"a"}, {"a", "b"}} {
		h.inbox.put(drivers.Change{Replace: true, Set: []pipeline.Object{addressSet{addresses}}})
		h.inbox.put(drivers.Change{Set: []pipeline.Object{addressSet{addresses}}})
	}
	h.connect(sw)
	if err := h.sync(addressSet{}.Key()); err != nil {
		t.Error(err)
	}
}

// addressSet cannot be compared with ==.
type addressSet struct{ addresses []string }

func (addressSet) Key() pipeline.Key { return pipeline.Key{Kind: "set", ID: "s1"} }

func (a addressSet) Equal(other pipeline.Object) bool {
	b, ok := other.(addressSet)
	return ok && slices.Equal(a.addresses, b.addresses)
}

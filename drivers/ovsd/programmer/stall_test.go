package programmer

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/ovstest"
	"github.com/contiv/netplugin/utils/fault"
)

func add(o ...pipeline.Object) drivers.Change { return drivers.Change{Set: o} }

// While a connected switch accepts nothing, Owes is the time of the first pending change.
func TestASwitchThatRefusesEverythingOwesWhatWaits(t *testing.T) {
	h, sw := newHarness(t), newFakeSwitch()
	h.inbox.put(drivers.Change{Replace: true, Set: manyRules(3)})
	h.connect(sw)
	if err := h.sync(); err != nil || !h.progress().Owes.IsZero() {
		t.Fatalf("%v, owes since %v", err, h.progress().Owes)
	}
	sw.set(func() { sw.closed = true })
	h.inbox.put(add(rule(10, 50)))
	if err := h.sync(); err == nil {
		t.Error("a switch that takes nothing has taken a rule")
	}
	since := h.progress().Owes
	if since.IsZero() || !h.progress().Connected {
		t.Fatalf("owes since %v", since)
	}
	h.inbox.put(add(rule(11, 50)))
	if err := h.sync(rule(11, 50).Key()); err == nil || !h.progress().Owes.Equal(since) {
		t.Errorf("another one waits (%v): owes since %v, was %v", err, h.progress().Owes, since)
	}
	sw.set(func() { sw.closed = false })
	h.eventually("it owes nothing", func() bool { return h.progress().Owes.IsZero() && h.progress().InSync })
}

// A rule that the switch refuses must not mark the node as broken, or everyone who may write rules could do that.
func TestASwitchThatRefusesARuleOwesNothing(t *testing.T) {
	h, sw := newHarness(t), newFakeSwitch()
	h.inbox.put(drivers.Change{Replace: true, Set: manyRules(3)})
	h.connect(sw)
	if err := h.sync(); err != nil {
		t.Fatal(err)
	}
	h.inbox.put(add(rule(10, refusedPriority)))
	if err := h.sync(); err == nil || !h.progress().Owes.IsZero() {
		t.Errorf("%v, owes since %v", err, h.progress().Owes)
	}
	if flows, _ := sw.count(); flows != 4 {
		t.Errorf("%d flows, want 4: what was asked in between is left", flows)
	}
}

// A switch that does not answer is disconnected and connected again: Owes remains.
func TestASwitchThatDoesNotAnswerOwesWhatWaitsThroughItsConnections(t *testing.T) {
	h, sw := newHarness(t), newFakeSwitch()
	h.inbox.put(drivers.Change{Replace: true, Set: manyRules(3)})
	h.connect(sw)
	if err := h.sync(); err != nil {
		t.Fatal(err)
	}
	sw.set(func() { sw.mute = true })
	h.inbox.put(add(rule(10, 50)))
	h.eventually("it owes a rule", func() bool { return !h.progress().Owes.IsZero() })
	since := h.progress().Owes
	for range 3 {
		sw.Close()
		sw = newFakeSwitch()
		sw.mute = true
		h.connect(sw)
		h.eventually("it is connected", func() bool { return h.progress().Connected })
		if now := h.progress().Owes; !now.Equal(since) {
			t.Fatalf("owes since %v, was %v", now, since)
		}
	}
	sw.Close()
	h.connect(newFakeSwitch())
	h.eventually("it owes nothing", func() bool { return h.progress().Owes.IsZero() && h.progress().InSync })
}

// longest returns the longest time in which the switch accepted nothing, checked each second for the duration
// look. When a connection ends, another one to the same switch follows.
func (h *harness) longest(sw *fakeSwitch, look time.Duration) (owed time.Duration) {
	for range int(look / time.Second) {
		select {
		case <-sw.Done():
			sw = sw.again()
			h.connect(sw)
		default:
		}
		time.Sleep(time.Second)
		if since := h.progress().Owes; !since.IsZero() {
			owed = max(owed, time.Since(since))
		}
	}
	return owed
}

// inSync returns a programmer whose switch has these rules.
func inSync(t *testing.T, rules []pipeline.Object) (*harness, *fakeSwitch) {
	h, sw := newHarness(t), newFakeSwitch()
	h.inbox.put(drivers.Change{Replace: true, Set: rules})
	h.connect(sw)
	if err := h.sync(); err != nil {
		t.Fatal(err)
	}
	return h, sw
}

// A change that is sent to all nodes, and that no switch accepts in time, must not mark all nodes as broken.
func TestASwitchThatMissesOneChangeTakesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, sw := inSync(t, manyRules(3))
		sw.set(func() { sw.silent = 77 })
		h.inbox.put(add(rule(1000, 77), rule(1001, 50)))
		h.inbox.put(add(manyRules(500)...))
		if owed := h.longest(sw, 5*time.Minute); owed >= time.Minute {
			t.Errorf("it is taken for one that has taken nothing for %s", owed)
		}
		if flows, _ := sw.count(); flows != 502 {
			t.Errorf("%d flows, want all but the one that has no answer", flows)
		}
		if err := h.progress().Err; err == nil {
			t.Error("nothing is told of the rule that has no answer")
		}
	})
}

// A switch that lists its flows, but answers no change, accepts nothing.
func TestASwitchThatAnswersToNoChangeTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, sw := inSync(t, manyRules(3))
		sw.set(func() { sw.takes = time.Hour; sw.tells = 100 * time.Millisecond })
		h.inbox.put(add(rule(10, 77)))
		if owed := h.longest(sw, 5*time.Minute); owed < 3*time.Minute {
			t.Errorf("it is taken for one that has taken nothing for %s", owed)
		}
	})
}

// A slow switch gets the time that it needs to list its flows.
func TestASwitchThatTellsItsFlowsSlowlyOwesNothingMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, sw := inSync(t, manyRules(60_000))
		sw.set(func() { sw.tells = 1200 * time.Microsecond })
		sw.Close()
		h.inbox.put(add(rule(70_000, 77)))
		if owed := h.longest(sw, 2*time.Minute); owed >= 20*time.Second {
			t.Errorf("it is taken for one that has taken nothing for %s", owed)
		}
		if !h.progress().InSync {
			t.Error("it is not in sync")
		}
	})
}

// The refused part of a large change is found by bisection; a slow switch may take its time for each half.
func TestASwitchThatTakesHalfOfAChangeTakesSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, sw := inSync(t, nil)
		sw.set(func() { sw.takes = 12 * time.Second })
		h.inbox.put(drivers.Change{Set: append(manyRules(1000), rule(2000, refusedPriority))})
		if owed := h.longest(sw, 5*time.Minute); owed >= time.Minute {
			t.Errorf("it is taken for one that has taken nothing for %s", owed)
		}
	})
}

// The probe leaves no flow, and is refused by a switch that accepts no more flows.
func TestARealSwitchIsAskedWhetherItTakesAnything(t *testing.T) {
	s := ovstest.Start(t)
	s.AddBridge("br0")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := openflow.Dial(ctx, s.Bridge("br0"), openflow.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := &Programmer{conn: connection{sw: conn}}
	before := s.Ofctl("dump-flows", "br0")
	if err := p.probeChange(ctx); err != nil {
		t.Error(err)
	}
	if after := s.Ofctl("dump-flows", "br0"); strings.Count(after, "\n") != strings.Count(before, "\n") {
		t.Errorf("flows\n%s, before\n%s", after, before)
	}
	s.Vsctl("--", "--id=@full", "create", "Flow_Table", "flow_limit=0", "overflow_policy=refuse", "--", "set", "Bridge", "br0", "flow_tables:0=@full")
	if err := p.probeChange(ctx); err == nil || fault.Is(err, fault.Unavailable) {
		t.Errorf("a table without room: %v", err)
	}
}

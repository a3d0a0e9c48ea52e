package programmer

import (
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

func packedOf(t *testing.T, f openflow.Flow) openflow.PackedFlow {
	t.Helper()
	p, err := openflow.Pack(f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// An audit leaves the learned flows of a wanted object, removes those of no object, and reports neither as drift.
func TestAnAuditRemovesWhatIsLearnedForNobody(t *testing.T) {
	shop := pipeline.Key{Kind: pipeline.KindService, ID: "shop"}
	const learns = uint64(0xc106_0000_0000_0258)
	found := []openflow.PackedFlow{packedOf(t, openflow.Flow{Table: 32, Priority: 100, Cookie: learns, IdleTimeout: 600})}
	l := newBooks(defaultChunk)
	audit := func() drift { return l.compare(&slice{flows: found, turn: l.nextTurn()}) }

	l.set(shop, packed{learns: []uint64{learns, learns}})
	l.set(shop, packed{learns: []uint64{learns}})
	if d := audit(); l.learned.ended || l.pending() != 0 || len(d.flows) != 0 {
		t.Errorf("of a wanted service: %d to change, drift %v, ended %t", l.pending(), d.flows, l.learned.ended)
	}
	l.set(shop, packed{})
	if d := audit(); !l.learned.ended || l.pending() != 1 || len(d.flows) != 0 {
		t.Errorf("of nobody: %d to change, drift %v, ended %t", l.pending(), d.flows, l.learned.ended)
	}
}

// Flows that are learned late are looked for soon, but not before they may exist; audits are not delayed by
// services that stop learning all the time.
func TestAnAuditComesSoonAfterSomethingIsLearnedNoMore(t *testing.T) {
	a := newAuditor(time.Hour, nil)
	if !a.scheduleNext() || time.Until(a.due) > learnsLate {
		t.Errorf("the next audit is in %v", time.Until(a.due))
	}
	first := a.due
	if a.scheduleNext(); a.due != first {
		t.Errorf("the audit was put off by %v", a.due.Sub(first))
	}
	a.next(learnsLate / 2)
	if a.scheduleNext() {
		t.Error("an audit about to begin passes for one that sees all that is learned late")
	}
	a.next(time.Hour)
	a.busy = true
	if a.scheduleNext() {
		t.Error("an audit under way passes for one that sees all that is learned late")
	}
}

func TestLearnedFlowsAreTold(t *testing.T) {
	own := cookie.New(cookie.Service, "shop")
	for c, want := range map[uint64]int{own: keep, cookie.Learned(own): wasLearned, 7: leave} {
		if got := verdict(openflow.FlowEntry{Cookie: c, IdleTimeout: 600}); got != want {
			t.Errorf("cookie %#x: verdict %d, want %d", c, got, want)
		}
	}
}

package programmer

import (
	"net/netip"
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// The connections of a removed endpoint are flushed once its flows are removed, twice, unless another endpoint has
// its address by then; also over another connection to the switch.
func TestConnectionsOfWhoHasLeftAreEndedWhenItsFlowsAreOut(t *testing.T) {
	e := pipeline.Endpoint{ID: "a", VRF: 1, IPv4: netip.MustParseAddr("10.1.0.1"), IPv6: netip.MustParseAddr("fd00::1"), Local: true, Tiers: pipeline.Tracked}
	const four, six = 4, 10 // from it in two zones, and to it in one; IPv6 by protocol; and TCP of clients that entered by other nodes
	const flushes = four + six
	start := func() flushSwitch {
		s := flushSwitch{t, newBooks(defaultChunk)}
		mustSet(t, s.books, e.Key(), wanting(map[int]int{7: 1}))
		s.write()
		mustSet(t, s.books, e.Key(), pipeline.Wants{})
		s.flushEndpoint(e)
		return s
	}
	expect := func(when string, s flushSwitch, again bool, want int) {
		t.Helper()
		if got := len(s.round(again)); got != want {
			t.Errorf("%s: %d flushes, want %d", when, got, want)
		}
	}

	s := start()
	expect("its flows are there", s, true, 0)
	s.write()
	expect("its flows are out", s, false, flushes)
	if s.queueFlushes(true, time.Now()); len(s.queue) > 0 {
		t.Error("once more at once, when the datapath may still know the flows")
	}
	expect("nothing new", s, false, 0)
	expect("once more", s, true, flushes)
	expect("all rounds are over", s, true, 0)
	s.write()
	if s.hasLater() || len(s.flushing) != 0 || len(s.flows.list) != 0 {
		t.Errorf("left: %v, %d flows", s.flushing, len(s.flows.list))
	}

	// A driver that is killed once the flows are removed leaves the record to the next one.
	s = start()
	s.write()
	next := flushSwitch{t, newBooks(defaultChunk)}
	for _, p := range s.flows.list {
		next.flows.found(next.flows.place(p.name), p.have)
	}
	next.flushAllBut(nil, nil) // the existing endpoints are not known
	next.write()
	expect("the driver was killed", next, false, flushes)
	expect("once more", next, true, flushes)
	expect("all rounds of the next driver are over", next, true, 0)
	next.write()
	if next.hasLater() || len(next.flows.list) != 0 {
		t.Errorf("the next driver leaves %v, %d flows", next.flushing, len(next.flows.list))
	}

	s = start()
	s.write()
	s.queueFlushes(false, time.Now())
	s.forget()
	expect("the connection was lost", s, false, flushes)
	expect("once more", s, true, flushes)

	s = start()
	s.write()
	s.queueFlushes(false, time.Now().Add(-flushPause))
	s.queue = nil
	for _, left := range s.flushing {
		left.queued = false
	}
	expect("its flows have been out for a while", s, false, flushes)
	expect("so the datapath has none of them", s, true, 0)

	s = start()
	s.spareEndpoint(e)
	s.write()
	expect("another one has the address already", s, false, flushes)
	expect("its connections are its own", s, true, 0)

	s = start()
	s.write()
	expect("its flows are out", s, false, flushes)
	s.spareEndpoint(pipeline.Endpoint{VRF: e.VRF, IPv4: e.IPv4})
	expect("another one has one of the addresses", s, true, six)
	if len(s.departed) != 1 {
		t.Errorf("%d notes, want that of the other address: %v", len(s.departed), s.departed)
	}

	s = start()
	s.write()
	passes := func(again bool) (passes int) {
		now := time.Now()
		if again {
			now = now.Add(flushPause)
		}
		for s.queueFlushes(again, now); len(s.queue) > 0; passes++ {
			_, ends := s.nextFlushes(1)
			s.flushed(ends, true, now, now)
		}
		return passes
	}
	if first, second := passes(false), passes(true); first != flushPasses*flushes || second != flushes {
		t.Errorf("passes through a large table: %d, then %d", first, second)
	}

	e.Local = false
	s = start()
	s.write()
	expect("elsewhere: in the zone of tiers", s, false, 2+6)
	e.Tiers = 0
	s = start()
	s.write()
	expect("elsewhere, not tracked", s, false, 0)
}

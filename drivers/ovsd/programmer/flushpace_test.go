package programmer

import (
	"net/netip"
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// A step is short, and is followed by a pause: as long as the step, and much longer if a flush is long and can
// wait.
func TestFlushesLeaveTheSwitchTime(t *testing.T) {
	began := time.Now()
	for name, test := range map[string]struct {
		flushes         int
		took            time.Duration
		left            int
		atOnce          int
		urgent, patient time.Duration
	}{
		"a small table":             {12, 2 * time.Millisecond, 9, flushMost, 2 * time.Millisecond, 2 * time.Millisecond},
		"a larger one":              {4, 16 * time.Millisecond, 9, 2, 16 * time.Millisecond, 16 * time.Millisecond},
		"a large one":               {1, 100 * time.Millisecond, 9, 1, 100 * time.Millisecond, 2 * time.Second},
		"a large one, many to come": {1, 100 * time.Millisecond, 100, 1, 100 * time.Millisecond, 300 * time.Millisecond},
		"more than there is time":   {1, 100 * time.Millisecond, 1000, 1, 100 * time.Millisecond, 100 * time.Millisecond},
		"no answer":                 {1, 15 * time.Second, 1, 1, restMost, restMost},
	} {
		var p flushPace
		if !p.next(true, test.left).Before(began) || p.atOnce() != flushMost {
			t.Errorf("%s: before the first step: %d at once, at %s", name, p.atOnce(), p.next(true, test.left))
		}
		ended := began.Add(test.took)
		p.note(test.flushes, began, ended)
		p.note(0, began, ended.Add(time.Hour))
		if urgent, patient := p.next(false, test.left).Sub(ended), p.next(true, test.left).Sub(ended); p.atOnce() != test.atOnce || urgent != test.urgent || patient != test.patient {
			t.Errorf("%s: %d at once, after %s, or %s", name, p.atOnce(), urgent, patient)
		}
	}
}

// Connections to removed providers are flushed before those of removed pods; those of a removed pod whose address
// another pod has by then do not wait either.
func TestConnectionsThatNobodyIsServedWronglyByAreEndedLast(t *testing.T) {
	many, one := balanced("ab", map[uint16]uint16{80: 8080}), balanced("a", map[uint16]uint16{80: 8080})
	s := flushSwitch{t, newBooks(defaultChunk)}
	gone := func(last byte) pipeline.Endpoint {
		return pipeline.Endpoint{ID: "gone", VRF: 1, IPv4: netip.AddrFrom4([4]byte{10, 1, 0, last}), Local: true}
	}
	first := func(what string, wantPatient bool, want func(c openflow.CTFlush) bool) {
		t.Helper()
		flushes, ends := s.nextFlushes(1)
		if patient := s.noneUrgent(); patient != wantPatient || len(flushes) != 1 || !want(flushes[0]) {
			t.Errorf("%s: %v, can wait: %v", what, flushes, patient)
		}
		for range flushPasses {
			s.flushed(ends, false, time.Now(), time.Now())
		}
	}
	is := func(e pipeline.Endpoint) func(openflow.CTFlush) bool {
		return func(c openflow.CTFlush) bool { return c.By == e.IPv4 || c.From.Addr() == e.IPv4 && !c.To.IsValid() }
	}

	s.flushEndpoint(gone(22))
	s.write()
	s.queueFlushes(false, time.Now())
	s.flushEndpoint(gone(21))
	s.write()
	s.queueFlushes(false, time.Now())
	for range len(pipeline.ConnectionsOf(gone(22))) {
		first("the first that went", true, is(gone(22)))
	}
	s.flushEndpoint(gone(22)) // and another pod gets its address
	s.write()
	s.queueFlushes(false, time.Now())
	if !s.noneUrgent() {
		t.Error("the connections of pods that are gone cannot wait")
	}
	s.want(&many).want(&one)
	s.queueFlushes(false, time.Now())
	first("a provider is gone, too", false, func(c openflow.CTFlush) bool { return c.To.IsValid() })
	s.spareEndpoint(gone(22))
	for range len(pipeline.ConnectionsOf(gone(22))) {
		first("another pod has the second one's address", false, is(gone(22)))
	}
	for range len(pipeline.ConnectionsOf(gone(21))) {
		first("nothing else", true, is(gone(21)))
	}
	if len(s.queue) != 0 {
		t.Errorf("left in the queue: %d", len(s.queue))
	}
}

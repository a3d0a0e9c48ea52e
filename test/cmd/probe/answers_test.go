package main

import (
	"testing"
	"time"
)

// Losses are reported in rows, the first ones, and all are counted.
func TestAReportTellsWhatWasLostAndSince(t *testing.T) {
	const sent = 1000
	begin := time.Unix(1700000000, 0)
	times := make([]time.Time, sent)
	for i := range times {
		times[i] = begin.Add(time.Duration(i) * time.Millisecond)
	}
	times = append(times, begin.Add((sent+9)*time.Millisecond)) // after nine that were not sent
	for name, c := range map[string]struct {
		lost                    func(i int) bool
		rows, first, all, after int // after is the last lost one, in ms
	}{
		"nothing":       {func(int) bool { return false }, 0, 0, 0, 0},
		"a row":         {func(i int) bool { return i >= 5 && i < 8 }, 1, 3, 3, 7},
		"the first one": {func(i int) bool { return i == 0 }, 1, 1, 1, 0},
		"every other":   {func(i int) bool { return i%2 == 1 }, maxLosses, 1, sent / 2, sent - 1},
		"many rows":     {func(i int) bool { return i%5 < 2 }, maxLosses, 2, 401, sent + 9},
	} {
		a := newAnswers(2 * sent)
		for i := range times {
			if !c.lost(i) {
				a.note(uint64(i))
				a.note(uint64(i)) // a duplicate changes nothing
			}
		}
		r := a.report(times)
		switch {
		case r.Lost != c.all || r.Sent != sent+1 || r.Received != sent+1-c.all || len(r.Losses) != c.rows:
			t.Errorf("%s: %+v", name, r)
		case c.rows > 0 && (r.Losses[0].Count != c.first || r.Losses[c.rows-1].Count > c.first):
			t.Errorf("%s: rows %+v", name, r.Losses)
		case c.rows > 0 && r.LastLost != begin.Add(time.Duration(c.after)*time.Millisecond):
			t.Errorf("%s: the last one at %s", name, r.LastLost)
		}
	}
	if got := late(times, time.Millisecond); got != 9 {
		t.Errorf("%d were not sent in time, want 9", got)
	}
}

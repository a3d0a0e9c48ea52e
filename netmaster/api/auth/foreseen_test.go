package auth

import (
	"testing"
	"time"
)

// However many clients there are.
func TestTheReportIsBounded(t *testing.T) {
	now := time.Now()
	f := NewForeseen(now)
	for i := range 3 * mostForeseen {
		f.add(foreseenKey{source: string(rune(i))}, "why", now)
	}
	if said := f.Report(now); len(said.Rows) != mostForeseen || said.More != 2*mostForeseen {
		t.Errorf("%d rows, %d more", len(said.Rows), said.More)
	}
	now = now.Add(25 * time.Hour)
	f.add(foreseenKey{source: "later"}, "why", now)
	if said := f.Report(now); len(said.Rows) != 1 || said.More != 0 || now.Sub(said.Since) != 24*time.Hour {
		t.Errorf("%+v", said)
	}
}

// The counts of several netmasters make one report, as long as that of one.
func TestReportsOfSeveralNetmastersAreOne(t *testing.T) {
	now := time.Now()
	a, b := NewForeseen(now.Add(-2*time.Hour)), NewForeseen(now.Add(-time.Hour))
	for range 3 {
		a.add(foreseenKey{"nobody", "192.0.2.1", "GET x"}, "before", now.Add(-time.Minute))
	}
	b.add(foreseenKey{"nobody", "192.0.2.1", "GET x"}, "after", now)
	b.add(foreseenKey{"nobody", "192.0.2.2", "GET x"}, "other", now.Add(-time.Second))
	said := AddReport(a.Report(now), b.Report(now))
	if !said.Since.Equal(now.Add(-time.Hour)) || len(said.Rows) != 2 || said.Rows[0].Count != 4 || said.Rows[0].Reason != "after" || !said.Rows[0].Last.Equal(now) || said.Rows[1].Count != 1 {
		t.Errorf("%+v", said)
	}
	for i := range mostForeseen {
		b.add(foreseenKey{source: string(rune(i))}, "why", now)
	}
	said = AddReport(a.Report(now), b.Report(now))
	if n := int64(len(said.Rows)) + said.More; len(said.Rows) != mostForeseen || n < mostForeseen+2 {
		t.Errorf("%d rows, %d more", len(said.Rows), said.More)
	}
}

package auth

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/contiv/netplugin/contivmodel"
)

// A permissive cluster counts the requests that an enforced one would refuse, so that an operator who is about
// to enforce knows which clients are concerned. Each netmaster counts while it leads, and keeps the counts
// until it ends; the leader asks the others. The audit logs of all leaders have the details.

const (
	foreseenHours = 24   // hours in the report
	mostForeseen  = 1000 // rows
)

// Foreseen has the counts of one netmaster, by client and request.
type Foreseen struct {
	mu    sync.Mutex
	since time.Time
	rows  map[foreseenKey]*foreseenRow
	more  perHour // requests without a row
}

type foreseenKey struct{ principal, source, request string }

type foreseenRow struct {
	count  perHour
	reason string
	last   time.Time
}

// perHour is a count for each of the last hours.
type perHour [foreseenHours]struct{ hour, count int64 }

func hour(t time.Time) int64 { return t.Unix() / 3600 }

func (p *perHour) add(now time.Time) {
	at := &p[hour(now)%foreseenHours]
	if at.hour != hour(now) {
		at.hour, at.count = hour(now), 0
	}
	at.count++
}

func (p *perHour) sum(now time.Time) (n int64) {
	for _, at := range p {
		if at.hour > hour(now)-foreseenHours {
			n += at.count
		}
	}
	return n
}

// NewForeseen returns empty counts, which begin now.
func NewForeseen(now time.Time) *Foreseen {
	return &Foreseen{since: now, rows: map[foreseenKey]*foreseenRow{}}
}

// add counts a request.
func (f *Foreseen) add(key foreseenKey, reason string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	row := f.rows[key]
	if row == nil {
		if len(f.rows) >= mostForeseen {
			f.forget(now)
		}
		if len(f.rows) >= mostForeseen {
			f.more.add(now)
			return
		}
		row = &foreseenRow{}
		f.rows[key] = row
	}
	row.count.add(now)
	row.reason, row.last = reason, now
}

// forget drops the rows without a request in the last hours.
func (f *Foreseen) forget(now time.Time) {
	for key, row := range f.rows {
		if row.count.sum(now) == 0 {
			delete(f.rows, key)
		}
	}
}

// Report returns the counts.
func (f *Foreseen) Report(now time.Time) contivmodel.SecurityReport {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(now)
	said := contivmodel.SecurityReport{Since: f.since, Rows: []contivmodel.WouldBeRefused{}, More: f.more.sum(now)}
	if whole := now.Add(-foreseenHours * time.Hour); said.Since.Before(whole) {
		said.Since = whole
	}
	for key, row := range f.rows {
		said.Rows = append(said.Rows, contivmodel.WouldBeRefused{Principal: key.principal, Source: key.source, Request: key.request,
			Reason: row.reason, Count: row.count.sum(now), Last: row.last})
	}
	sortRows(said.Rows)
	return said
}

func sortRows(rows []contivmodel.WouldBeRefused) {
	slices.SortFunc(rows, func(a, b contivmodel.WouldBeRefused) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Request, b.Request))
	})
}

// AddReport adds the counts of another netmaster. Since is the
// later of both: before that, one of them may have dropped counts.
func AddReport(said, other contivmodel.SecurityReport) contivmodel.SecurityReport {
	at := map[foreseenKey]int{}
	keyOf := func(row contivmodel.WouldBeRefused) foreseenKey {
		return foreseenKey{row.Principal, row.Source, row.Request}
	}
	for i, row := range said.Rows {
		at[keyOf(row)] = i
	}
	for _, row := range other.Rows {
		i, there := at[keyOf(row)]
		if !there {
			said.Rows = append(said.Rows, row)
			continue
		}
		is := &said.Rows[i]
		is.Count += row.Count
		if row.Last.After(is.Last) {
			is.Last, is.Reason = row.Last, row.Reason
		}
	}
	if other.Since.After(said.Since) {
		said.Since = other.Since
	}
	said.More += other.More
	sortRows(said.Rows)
	if over := len(said.Rows) - mostForeseen; over > 0 {
		for _, row := range said.Rows[mostForeseen:] {
			said.More += row.Count
		}
		said.Rows = said.Rows[:mostForeseen]
	}
	return said
}

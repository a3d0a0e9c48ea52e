package api

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/objdb/ledger"
)

// What an enforced cluster would refuse is counted while the cluster is permissive, so that
// who is to close it knows whom that concerns. The leader counts, from the begin of its
// term on; the audit logs of all leaders have the rest.

const (
	foreseenHours = 24   // that are told of
	mostForeseen  = 1000 // rows
)

// foreseen are the counters, by what tells two clients apart.
type foreseen struct {
	mu    sync.Mutex
	since time.Time
	rows  map[foreseenKey]*foreseenRow
	more  perHour // of those that found no row
}

type foreseenKey struct{ principal, source, request string }

type foreseenRow struct {
	count  perHour
	reason string
	last   time.Time
}

// perHour counts what happens in each of the last hours.
type perHour [foreseenHours]struct{ hour, count int64 }

func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

func (p *perHour) add(now time.Time) {
	at := &p[hourOf(now)%foreseenHours]
	if at.hour != hourOf(now) {
		at.hour, at.count = hourOf(now), 0
	}
	at.count++
}

func (p *perHour) sum(now time.Time) (n int64) {
	for _, at := range p {
		if at.hour > hourOf(now)-foreseenHours {
			n += at.count
		}
	}
	return n
}

func newForeseen(now time.Time) *foreseen {
	return &foreseen{since: now, rows: map[foreseenKey]*foreseenRow{}}
}

// add counts a request.
func (f *foreseen) add(key foreseenKey, reason string, now time.Time) {
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

// forget drops the rows in which nothing was counted for long.
func (f *foreseen) forget(now time.Time) {
	for key, row := range f.rows {
		if row.count.sum(now) == 0 {
			delete(f.rows, key)
		}
	}
}

// report tells what was counted.
func (f *foreseen) report(now time.Time) contivmodel.SecurityReport {
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
	slices.SortFunc(said.Rows, func(a, b contivmodel.WouldBeRefused) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Source, b.Source), cmp.Compare(a.Request, b.Request))
	})
	return said
}

// securityReport answers what an enforced cluster would have refused.
func (a *API) securityReport(*http.Request) (reply, error) {
	return reply{from: func(r ledger.Reader) (reply, error) {
		mode, err := access.ModeOf(r)
		said := a.foreseen.report(a.config.Now().UTC())
		said.Mode = string(mode)
		return reply{body: said}, err
	}}, nil
}

package gate

import (
	"context"
	"math"
	"slices"
	"time"
)

// A tenant that loses its last endpoint on a node lingers, and may get another one there. Another gate may have
// dropped the tenant meanwhile, or have begun without it. A node that has listed there lacks the tenant's records, so
// it has to list again; one whose watch has continued here has all of them. The watch alone does not tell the two
// apart: it begins at the newest record that the node has, which may be much older than its listing. But the listing
// is not newer than the store is at any moment after the watch has begun: it had the tenant's records, at any gate, if
// the node still had an endpoint of the tenant then.

// served are the revisions at which a node had endpoints of a tenant.
type served struct {
	since   int64    // of the first endpoint of the present period, or of the last one
	until   int64    // at which the last endpoint was removed; of a former period while there are some
	earlier []period // ended periods in which the tenant never ceased to be served, oldest first
}

// period is the time from the revision of a first endpoint to that at which none was left.
type period struct{ from, to int64 }

// keptPeriods limits the ended periods: watches of before list again.
const keptPeriods = 32

// begin begins a period.
func (s *served) begin(rev int64) {
	if s.until > s.since {
		s.earlier = append(s.earlier, period{s.since, s.until})
		s.earlier = s.earlier[max(0, len(s.earlier)-keptPeriods):]
	}
	s.since = rev
}

// restart makes a revision the first one.
func (s *served) restart(rev int64) { *s = served{since: rev} }

// had reports whether a listing had the records of the tenant.
func (s *served) had(l listing) bool {
	return s.since < l.before || slices.ContainsFunc(s.earlier, func(p period) bool { return p.from < l.before && l.latest < p.to })
}

// listing is what is known of the listing of a node that has all changes before a revision, by a watch or
// as they are in the listing.
type listing struct {
	before int64
	latest int64 // the listing is not newer
}

// anyTime is a listing that is filtered with what is served now.
func anyTime() listing { return listing{math.MaxInt64, math.MaxInt64} }

// sighting is a revision that the store had reached after a moment.
type sighting struct {
	after time.Time
	rev   int64
}

// sight asks the store how far it has come.
func (g *Gate) sight(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	asked := time.Now()
	rev, err := g.present.ask(ctx)
	if err != nil {
		g.log.WithError(err).Debug("it is not known how far the store has come; asking later")
		return
	}
	g.index.mu.Lock()
	defer g.index.mu.Unlock()
	g.index.sighted = sighting{asked, rev}
}

// date dates the listing of a watch that has begun before a sighting.
func (s sighting) date(w *watch) {
	if w.latest == math.MaxInt64 && w.begun.Before(s.after) {
		w.latest = s.rev
	}
}

package programmer

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// lostCount is how many places are checked at once for lost flows.
const lostCount = 4096

// learnsLate is how long a busy ovs-vswitchd may continue to learn from earlier packets: several times the half
// second within which it revalidates all flows of the datapath.
const learnsLate = 5 * time.Second

// auditor decides when which slice is read. It belongs to the programmer; other goroutines only read slices, one at
// a time.
type auditor struct {
	log      *logrus.Entry
	interval time.Duration // from one audit to the next

	results chan *slice
	workers sync.WaitGroup
	timer   *time.Timer           // fires when the next slice is due
	due     time.Time             // when that is
	busy    bool                  // a slice is being read
	past    bool                  // its contents are from before the last restart
	todo    []openflow.FlowFilter // remaining slices; none: the audit has not begun, or has ended
	pause   time.Duration         // between slices
	since   uint32                // turn of the first slice
	rest    int                   // places left to check for lost flows
	unseen  uint32                // flows that were not seen since this turn are lost: the first one of the last audit that ended
	others  int                   // flows that this audit has kept, as they cannot be parsed
}

func newAuditor(interval time.Duration, log *logrus.Entry) *auditor {
	return &auditor{log: log, interval: interval, results: make(chan *slice, 1), timer: time.NewTimer(interval), due: time.Now().Add(interval)}
}

// restart begins again, after a whole interval, as everything is read from the switch again. A slice that is
// being read may be older than that.
func (a *auditor) restart() {
	a.todo, a.rest, a.past = nil, 0, a.busy
	a.next(a.interval)
}

// scheduleNext lets the next audit begin in learnsLate, after which late changes of what the switch has learned are there. It
// returns false while an audit runs or begins earlier: that one may be too early.
func (a *auditor) scheduleNext() bool {
	if a.busy || len(a.todo) > 0 || time.Until(a.due) < learnsLate {
		return false
	}
	a.next(learnsLate)
	return true
}

// next schedules the next slice after a time.
func (a *auditor) next(after time.Duration) {
	a.due = time.Now().Add(after)
	a.timer.Reset(after)
}

// begin starts reading the next slice, or the first of an audit.
func (a *auditor) begin(ctx context.Context, sw Switch, l *books) {
	if a.busy {
		return // its end sets the timer
	}
	s := &slice{sw: sw, turn: l.nextTurn()}
	if len(a.todo) == 0 {
		s.first, a.since = true, s.turn
	} else {
		s.filter, a.todo = a.todo[0], a.todo[1:]
		s.last = len(a.todo) == 0
	}
	a.busy = true
	a.workers.Go(func() {
		s.fetch(ctx)
		a.results <- s
	})
}

// end compares a slice that has been read, and reports whether it was the last of its audit.
func (a *auditor) end(s *slice, sw Switch, l *books) (complete bool) {
	a.busy = false
	if a.past || s.sw != sw || s.err != nil {
		if s.err != nil && s.sw == sw {
			a.log.WithError(s.err).Warn("audit of the flows: the switch does not answer")
		}
		a.restart()
		return false
	}
	found := l.compare(s)
	report(a, "flows", "changed", found.flows, flowText)
	report(a, "groups", "changed or deleted", found.groups, openflow.Group.String)
	report(a, "meters", "changed or deleted", found.meters, openflow.Meter.String)
	if s.first {
		a.others = 0
		a.todo = s.plan
		a.pause = a.interval / time.Duration(len(s.plan)+1)
	}
	a.others += s.others
	if !s.last {
		a.next(max(a.pause, (auditShare-1)*s.took))
		return false
	}
	a.rest, a.unseen = len(l.flows.list), a.since
	a.next(a.interval)
	return true
}

// findLost checks some of the places for flows that no slice contained, and reports whether more are left.
func (a *auditor) findLost(l *books) (more bool) {
	if a.rest == 0 {
		return false
	}
	lost, rest := l.unseen(a.rest, lostCount, a.unseen)
	a.rest = rest
	report(a, "flows", "deleted", lost, flowText)
	return rest > 0
}

// report logs how many items of a kind another program has changed, and the first of them.
func report[T any](a *auditor, kind, what string, things []T, text func(T) string) {
	if len(things) > 0 {
		a.log.WithFields(logrus.Fields{kind: len(things), "first": text(things[0])}).Warn(kind + " were " + what + " by somebody else, repairing")
	}
}

func flowText(f openflow.PackedFlow) string { return f.Flow().String() }

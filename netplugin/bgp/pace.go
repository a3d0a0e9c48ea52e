package bgp

import (
	"net/netip"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/sirupsen/logrus"
)

// The library queues events without a limit. Neighbours that change routes continuously cause more events than can
// be processed. So while an event has waited in the queue for too long, the connections of neighbours are not
// read: TCP's windows fill, and the neighbours wait.
const (
	// longWait is how long an event may wait in the queue until neighbours are delayed. It is so short that the queue
	// is processed within the shortest hold time, even if that takes several times as long as it took to fill it.
	longWait = 100 * time.Millisecond
	// idleTime without an event means that the queue is empty, or that the processor is busy with other work. Then
	// one neighbour is read; the next event shows which case it is.
	idleTime = 50 * time.Millisecond
	// paceWindow is the longest time in which changes are counted by neighbour, for the log; paceLogPause is the least time
	// between two such lines.
	paceWindow   = 10 * time.Second
	paceLogPause = time.Minute
	// manyChanges is the least number of changes of one neighbour that is logged.
	manyChanges = 1000
)

// pace is the flow control of a session's neighbours.
type pace struct {
	log *logrus.Entry

	mu      sync.Mutex
	held    chan struct{} // closed when neighbours are read again; nil: they are read
	last    time.Time     // when the last event was processed
	since   time.Time     // since when changes are counted
	changes map[netip.Addr]int
	logged  time.Time
}

func newPace(log *logrus.Entry) *pace { return &pace{log: log, changes: map[netip.Addr]int{}} }

// processed records that an event with these paths has been processed, which was queued at time then. paths is
// empty if an UPDATE has changed no best route.
func (p *pace) processed(paths []*apiutil.Path, then time.Time) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.since) > paceWindow {
		clear(p.changes)
		p.since = now
	}
	for _, path := range paths {
		if neighbour := path.PeerAddress; neighbour.IsValid() && !neighbour.IsUnspecified() { // else announced by this node
			p.changes[neighbour]++
		}
	}
	p.last = now
	switch late := now.Sub(then) > longWait; {
	case late && p.held == nil:
		p.held = make(chan struct{})
		p.logBusiest(now)
	case !late && p.held != nil:
		close(p.held)
		p.held = nil
	}
}

// logBusiest logs the neighbour with the most changes, once per paceLogPause. The caller holds the lock.
func (p *pace) logBusiest(now time.Time) {
	counted := now.Sub(p.since)
	if now.Sub(p.logged) < paceLogPause || counted < longWait {
		return
	}
	var most netip.Addr
	for neighbour, changes := range p.changes {
		if changes > p.changes[most] {
			most = neighbour
		}
	}
	if p.changes[most] < manyChanges { // the delay had another cause
		return
	}
	p.logged = now
	p.log.WithFields(logrus.Fields{"neighbour": most, "changes": p.changes[most], "in": counted.Round(time.Millisecond)}).
		Warn("BGP neighbours change more routes than are taken in: all are read as fast as that; one of them changes most")
}

// wait blocks while neighbours are delayed.
func (p *pace) wait() {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	if held == nil {
		return
	}
	tick := time.NewTicker(idleTime)
	defer tick.Stop()
	for {
		select {
		case <-held:
			return
		case <-tick.C:
			if p.isIdle() {
				return
			}
		}
	}
}

// isIdle returns true to one caller of wait per idleTime without an event: the queue is empty, or the session has
// ended.
func (p *pace) isIdle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := time.Since(p.last) > idleTime
	if idle {
		p.last = time.Now()
	}
	return idle
}

package bgp

import (
	"net/netip"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/sirupsen/logrus"
)

// The library keeps what it has to tell until it is taken in, however much that is. Many neighbours that change their routes
// without end say more than is taken in. So none is read on while what it knows waits for too long: the connections of
// neighbours fill up, and they wait.
const (
	// longWait is how long a change may wait until neighbours are held up. What takes several times as long as it took to say it
	// is worked off in less than the shortest hold time.
	longWait = 100 * time.Millisecond
	// idleTime is after how long without a change none waits any more, or the processor is busy with others. So one neighbour is
	// read on then, and what it says tells.
	idleTime = 50 * time.Millisecond
	// paceWindow is how long changes are counted at most to tell who changes how much, and tellPause the time between two
	// such messages.
	paceWindow = 10 * time.Second
	tellPause  = time.Minute
	// manyChanges is how many changes of one neighbour are worth a message.
	manyChanges = 1000
)

// pace holds up the neighbours of a session.
type pace struct {
	log *logrus.Entry

	mu      sync.Mutex
	held    chan struct{} // closed when neighbours are read on; nil: they are
	taken   time.Time     // when the last change was taken in
	since   time.Time     // the beginning of what is counted
	changes map[netip.Addr]int
	told    time.Time
}

func newPace(log *logrus.Entry) *pace { return &pace{log: log, changes: map[netip.Addr]int{}} }

// take notes that changes are taken in, which the library had to tell since then; none: what a neighbour said changed none of
// the best routes.
func (p *pace) take(paths []*apiutil.Path, then time.Time) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.since) > paceWindow {
		clear(p.changes)
		p.since = now
	}
	for _, path := range paths {
		if neighbour := path.PeerAddress; neighbour.IsValid() && !neighbour.IsUnspecified() { // else ours
			p.changes[neighbour]++
		}
	}
	p.taken = now
	switch late := now.Sub(then) > longWait; {
	case late && p.held == nil:
		p.held = make(chan struct{})
		p.tell(now)
	case !late && p.held != nil:
		close(p.held)
		p.held = nil
	}
}

// tell says who is the cause, now and then. It is called with the lock.
func (p *pace) tell(now time.Time) {
	counted := now.Sub(p.since)
	if now.Sub(p.told) < tellPause || counted < longWait {
		return
	}
	var most netip.Addr
	for neighbour, changes := range p.changes {
		if changes > p.changes[most] {
			most = neighbour
		}
	}
	if p.changes[most] < manyChanges { // something else was late
		return
	}
	p.told = now
	p.log.WithFields(logrus.Fields{"neighbour": most, "changes": p.changes[most], "in": counted.Round(time.Millisecond)}).
		Warn("BGP neighbours change more routes than are taken in: all are read as fast as that; one of them changes most")
}

// wait returns when a neighbour may be read on.
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
			if p.turn() {
				return
			}
		}
	}
}

// turn tells one of those who wait, each idleTime, that nothing seems to be taken in any more: all is, or the session is over.
func (p *pace) turn() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := time.Since(p.taken) > idleTime
	if idle {
		p.taken = time.Now()
	}
	return idle
}

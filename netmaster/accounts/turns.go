package accounts

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// turns lets few work at a time and bounds how many wait for that. Of those that wait, the
// one with the lowest rank is next, and of several with the same rank the one that came first.
// Whoever comes when all places are taken gets the place of somebody with a higher rank, if
// there is one, who is told to come later; so is who has waited for as long as patience, since
// others with a lower rank may come without end.
type turns struct {
	atOnce, most int
	patience     time.Duration

	mu      sync.Mutex
	working int
	waiting []*waiter // next first
}

// waiter is somebody who waits.
type waiter struct {
	rank int
	told chan error // once: nil, it is his turn
}

// wait returns when it is the caller's turn, who calls done then. It fails as unavailable
// if others go first and too many wait or too long, or when ctx ends.
func (t *turns) wait(ctx context.Context, rank int) error {
	w := &waiter{rank, make(chan error, 1)}
	t.enter(w)
	tired := time.NewTimer(t.patience)
	defer tired.Stop()
	select {
	case err := <-w.told:
		return err
	case <-tired.C:
		t.leave(w)
		return busy()
	case <-ctx.Done():
		t.leave(w)
		return fault.New(fault.Unavailable, "login: %w", ctx.Err())
	}
}

func (t *turns) enter(w *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.working < t.atOnce {
		t.working++
		w.told <- nil
		return
	}
	at := slices.IndexFunc(t.waiting, func(other *waiter) bool { return other.rank > w.rank })
	if at < 0 {
		at = len(t.waiting)
	}
	t.waiting = slices.Insert(t.waiting, at, w)
	if last := len(t.waiting) - 1; last >= t.most {
		t.waiting[last].told <- busy()
		t.waiting = slices.Delete(t.waiting, last, last+1)
	}
}

func busy() error {
	return fault.New(fault.Unavailable, "too many logins at a time, try again in a moment")
}

// leave takes back a waiter who does not listen any more.
func (t *turns) leave(w *waiter) {
	t.mu.Lock()
	at := slices.Index(t.waiting, w)
	if at >= 0 {
		t.waiting = slices.Delete(t.waiting, at, at+1)
	}
	t.mu.Unlock()
	if at < 0 && <-w.told == nil {
		t.done()
	}
}

// done ends a turn.
func (t *turns) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) == 0 {
		t.working--
		return
	}
	t.waiting[0].told <- nil
	t.waiting = slices.Delete(t.waiting, 0, 1)
}

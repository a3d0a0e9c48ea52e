package accounts

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// turns limits how many callers work and how many wait. The waiter with the lowest rank is next; among equal ranks
// the first to arrive. If all places are taken, a new waiter takes the place of one with a higher rank, if there
// is one. A waiter that loses its place fails as unavailable; so does one that has waited for patience, since
// others with a lower rank may arrive without end.
type turns struct {
	atOnce, most int
	patience     time.Duration

	mu      sync.Mutex
	working int
	waiting []*waiter // next one first
}

// waiter is a waiting caller.
type waiter struct {
	rank int
	told chan error // gets one value: nil when its turn has come
}

// wait returns nil when it is the caller's turn; the caller then has to call done. The error is Unavailable if too
// many wait, or too long, or when ctx ends.
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

// leave removes a waiter that does not receive any more.
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

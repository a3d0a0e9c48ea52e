package objdb

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// Term is one period of holding a lock. It ends once: by Resign, because the
// store let the lease expire, because the own clock says it might have, or
// because a fenced transaction found the candidate key gone.
type Term struct {
	db    *DB
	lease *lease
	lock  string // key that others read
	fence string // candidate key; exists exactly as long as the term may write
	value string
	epoch int64

	ctx    context.Context
	cancel context.CancelCauseFunc
	kept   chan struct{} // closed when renewing has stopped

	mu    sync.Mutex     // orders adding a user with the end
	users sync.WaitGroup // ledgers
}

// newTerm starts to renew the lease; the term is not yet won.
func newTerm(db *DB, held *lease, cfg CampaignConfig) *Term {
	lock := LockKey(cfg.Lock)
	t := &Term{
		db: db, lease: held, lock: lock, value: cfg.Value,
		fence: fmt.Sprintf("%s/%x", lock, held.id),
		kept:  make(chan struct{}),
	}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	go func() {
		defer close(t.kept)
		if err := held.keep(t.ctx, ownLimit(cfg.TTL)); err != nil {
			t.end(err)
		}
	}()
	return t
}

// Context ends when the term does; context.Cause tells why.
func (t *Term) Context() context.Context { return t.ctx }

// Epoch grows from term to term: the revision at which the candidacy began.
func (t *Term) Epoch() int64 { return t.epoch }

// Fence is the guard that holds as long as the term does. A ledger adds it by itself.
func (t *Term) Fence() Guard { return sameIncarnation(t.fence, t.epoch) }

// end ends the term; only the first cause counts.
func (t *Term) end(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel(cause)
}

// use runs a ledger for which Resign waits; false when the term has ended.
func (t *Term) use(run func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return false
	}
	t.users.Go(run)
	return true
}

// ended is the error of everything after the end.
func (t *Term) ended() error {
	return fault.New(fault.NotLeader, "not the leader: %w", context.Cause(t.ctx))
}

// Resign ends the term and lets the successor in at once. Ledgers finish the
// commit they are in and refuse everything after it. After a term that ended
// otherwise, Resign waits for its goroutines and gives back what is left.
func (t *Term) Resign(ctx context.Context) error {
	t.end(fault.New(fault.NotLeader, "lock %s: resigned", t.lock))
	done := make(chan struct{})
	go func() {
		defer close(done)
		t.users.Wait()
		<-t.kept
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "lock %s: resign: %w", t.lock, ctx.Err())
	}
	return t.lease.revoke(ctx)
}

// release revokes the lease of a candidacy that failed, so that the queue does
// not wait for it. It must work although the caller's context has ended.
func (t *Term) release() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return t.lease.revoke(ctx)
}

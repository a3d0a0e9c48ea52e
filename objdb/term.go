package objdb

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// Term is one period of holding a lock. It ends once: by Resign, because the store let the lease expire, because by
// the own clock it may have, or because a transaction of the term found that the candidate key is gone.
type Term struct {
	db    *DB
	lease *lease
	lock  string // key of the holder, for others
	fence string // candidate key; exists exactly as long as the term may write
	value string
	epoch int64
	won   int64
	limit time.Duration // how long the lease is relied on without an answer to a renewal

	ctx    context.Context
	cancel context.CancelCauseFunc
	kept   chan struct{} // closed when renewals have stopped

	commits commits

	mu    sync.Mutex     // serializes adding a user and the end
	users sync.WaitGroup // functions of Go
}

// newTerm starts to renew the lease; the lock is not won yet. The term ends with the history of the
// store in which the lease was granted.
func newTerm(db *DB, held *lease, history int, cfg CampaignConfig) *Term {
	lock := LockKey(cfg.Lock)
	t := &Term{
		db: db, lease: held, lock: lock, value: cfg.Value,
		fence: fmt.Sprintf("%s/%x", lock, held.id),
		limit: ownLimit(cfg.TTL), kept: make(chan struct{}),
	}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	var keeping sync.WaitGroup
	keeping.Go(func() {
		if err := held.keep(t.ctx, t.limit); err != nil {
			t.end(err)
		}
	})
	keeping.Go(func() {
		if db.awaitOtherHistory(t.ctx, history) {
			t.end(fault.New(fault.NotLeader, "lock %s: the store went back or is another one", t.lock))
		}
	})
	go func() {
		defer close(t.kept)
		keeping.Wait()
	}()
	return t
}

// Context ends when the term does; context.Cause returns why.
func (t *Term) Context() context.Context { return t.ctx }

// Epoch grows from term to term: the revision at which the candidacy began.
func (t *Term) Epoch() int64 { return t.epoch }

// Won returns the revision at which the lock was won: all writes of earlier terms are older.
func (t *Term) Won() int64 { return t.won }

// DB returns the store of the term.
func (t *Term) DB() *DB { return t.db }

// List is DB.List, whether or not the term continues.
func (t *Term) List(ctx context.Context, prefix string) ([]KV, int64, error) {
	return t.db.List(ctx, prefix)
}

// Lock returns the name of the lock that the term holds.
func (t *Term) Lock() string { return strings.TrimPrefix(t.lock, lockRoot) }

// Fence returns the guard that holds as long as the term does. Term.Txn adds it itself.
func (t *Term) Fence() Guard { return SameIncarnation(t.fence, t.epoch) }

// end ends the term; only the first cause counts.
func (t *Term) end(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel(cause)
}

// Go runs a function that writes in this term, in a goroutine that must end soon after the term's context and
// for which Resign waits. If the term has ended, it returns false and runs nothing.
func (t *Term) Go(run func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return false
	}
	t.users.Go(run)
	return true
}

// Ended returns the error of all operations after the end; it must not be called before.
func (t *Term) Ended() error {
	return fault.New(fault.NotLeader, "not the leader: %w", context.Cause(t.ctx))
}

// Trusted returns nil if no other process can have led by now, by the own clock; otherwise the error of Ended.
// It is called between reading the state of the term and sending it to others: a process that was suspended
// continues before its timers have ended the context.
func (t *Term) Trusted() error {
	if t.ctx.Err() == nil && t.lease.left(t.limit) <= 0 {
		t.end(t.lease.overdue(t.limit))
	}
	if t.ctx.Err() != nil {
		return t.Ended()
	}
	return nil
}

// Txn commits a transaction under the fence of the term and returns its revision; ok is false if one of its own
// guards did not hold. If the fence is gone the term ends, and the error is of kind NotLeader.
//
// An error of kind Unavailable leaves open whether the transaction was executed. Txn may be called after the
// end of the term: the fence makes it harmless.
func (t *Term) Txn(ctx context.Context, txn Txn) (rev int64, ok bool, err error) {
	rev, candidate, err := t.fenced(ctx, t.Fence(), txn.If, txn.ops()...)
	if fault.Is(err, fault.Unavailable) {
		err = fault.New(fault.Unavailable, "commit with unknown outcome: %w", err)
	}
	return rev, err == nil && candidate == 0, err
}

// fenced sends operations under a guard of the candidate's key and others. It returns their revision or, if a
// guard does not hold, the revision of the last write of the candidate's key.
func (t *Term) fenced(ctx context.Context, fence Guard, guards []Guard, ops ...clientv3.Op) (rev, candidate int64, err error) {
	guards = append(slices.Clone(guards), fence)
	resp, err := Call(ctx, t.db, "commit", func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
		return c.Txn(ctx).If(Txn{If: guards}.compares()...).Then(ops...).Else(clientv3.OpGet(t.fence)).Commit()
	})
	switch {
	case err != nil:
		return 0, 0, err
	case resp.Succeeded:
		return resp.Header.Revision, 0, nil
	}
	key := resp.Responses[0].GetResponseRange()
	if len(key.Kvs) == 0 || key.Kvs[0].CreateRevision != t.epoch {
		t.end(fault.New(fault.NotLeader, "lock %s: candidate key is gone", t.lock))
		return 0, 0, t.Ended()
	}
	return 0, key.Kvs[0].ModRevision, nil
}

// endWithout ends the term when one of its keys is gone, as when somebody has deleted it. Without the holder's key the
// others do not find the leader; without the candidate's key another one leads, and this one would learn of it only
// when it writes.
func (t *Term) endWithout(key string) {
	wait := retry.NewPacer(RetryFirst, RetryMost)
	for t.ctx.Err() == nil {
		resp, err := Call(t.ctx, t.db, "read election", func(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) {
			return c.Get(ctx, key, clientv3.WithKeysOnly())
		})
		gone := err == nil && len(resp.Kvs) == 0
		if err == nil && !gone {
			_, err = t.db.awaitDelete(t.ctx, key, resp.Header.Revision+1)
			gone = err == nil
		}
		if gone {
			t.end(fault.New(fault.NotLeader, "lock %s: %s was deleted", t.lock, key))
			return
		}
		wait.Sleep(t.ctx) // the store is away, or the watch is behind its history
	}
}

// Resign ends the term, and its successor can start at once. Ledgers complete the commit in progress and refuse
// everything after it. After a term that ended otherwise, Resign waits for its goroutines and releases what is left.
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

// release revokes the lease of a failed candidacy, so that the queue does not wait for it. It works
// even if the caller's context has ended.
func (t *Term) release() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return t.lease.revoke(ctx)
}

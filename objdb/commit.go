package objdb

import (
	"bytes"
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// A transaction whose answer is lost has happened, will happen later, or never will: a member of the store that stops, or that
// hands leadership over, drops what it was sent, and a connection that ends may still deliver. To send it again could make it
// happen twice, the second time when what it did has been undone. So a transaction of Commit compares the revision
// of the candidate's key. After a lost answer that key is written: what was sent before can never happen from then
// on, and the keys that it was to write tell whether it has. This costs nothing while the store answers.
//
// A member that says the store is full may have seen that before it proposed the transaction or when it applied it, which it does
// all the same (quotaApplierV3.Txn of etcd). It does not happen later, and its keys tell here, too, whether it has.

// firstTry is how long the answer to a try is waited for at first; one that takes longer has the next wait twice as
// long, up to the request timeout. What a member has dropped while the store chose another leader is not answered before etcd's
// own limit of seconds.
const firstTry = 1500 * time.Millisecond

// commits is what Commit knows.
type commits struct {
	mu       sync.Mutex    // held for one transaction
	last     int64         // revision at which the candidate's key was last written, as far as is known
	open     bool          // a transaction may still happen
	patience time.Duration // for the next answer
}

// Commit is Txn for transactions that come one after the other, each of which happens at most once. It finds out what has become
// of one without an answer, sends it again if it can never happen, and takes at most twice the request timeout for
// all of that; others wait meanwhile. An error of kind Unavailable that says "unknown outcome"
// leaves open whether the transaction has happened; then it may happen until another Commit or Settle succeeds, and not later.
//
// Those who write the same keys beside the term can make the outcome unknown. A key that one of them deletes after a
// transaction whose answer is lost has put it, is put once more.
func (t *Term) Commit(ctx context.Context, txn Txn) (rev int64, ok bool, err error) {
	c := &t.commits
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*t.db.cfg.RequestTimeout)
	defer cancel()
	if c.open {
		// A full store takes no key, and deletions have to go on.
		if err := t.settle(ctx); err != nil && !fault.Is(err, fault.Exhausted) {
			return 0, false, err
		}
	}
	for {
		known := t.db.standing.ask().revision
		rev, ok, err := t.try(ctx, txn.If, txn.ops()...)
		full := fault.Is(err, fault.Exhausted)
		if !full && !fault.Is(err, fault.Unavailable) {
			return rev, ok, err
		}
		c.open = c.open || !full
		rev, happened, doubt := t.outcome(ctx, txn, known, full)
		switch {
		case doubt != nil:
			return 0, false, fault.New(fault.Unavailable, "commit with unknown outcome: %w, and then: %w", err, doubt)
		case happened && full && c.open: // an earlier one may have written the same
			return 0, false, fault.New(fault.Unavailable, "commit with unknown outcome: %w", err)
		case happened:
			return rev, true, nil
		case full:
			return 0, false, err
		}
		retry.Pause(ctx, RetryFirst)
		if ctx.Err() != nil || t.ctx.Err() != nil {
			return 0, false, fault.New(fault.Unavailable, "not committed: %w", err)
		}
	}
}

// Settle returns when nothing that Commit has left open can happen any more: what is read from then on stays as far as this
// term is concerned. It asks the store only if something is open, and takes at most the request timeout.
func (t *Term) Settle(ctx context.Context) error {
	c := &t.commits
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.open {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.db.cfg.RequestTimeout)
	defer cancel()
	return t.settle(ctx)
}

// try sends operations once; they can happen only until the candidate's key is written.
func (t *Term) try(ctx context.Context, guards []Guard, ops ...clientv3.Op) (rev int64, ok bool, err error) {
	c := &t.commits
	c.patience = max(c.patience, min(firstTry, t.db.cfg.RequestTimeout))
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	began := time.Now()
	rev, candidate, err := t.fenced(ctx, AtRevision(t.fence, c.last), guards, ops...)
	switch {
	case time.Since(began) < firstTry:
		c.patience = 0
	case err != nil:
		c.patience = min(2*c.patience, t.db.cfg.RequestTimeout)
	}
	if candidate != 0 {
		c.last = candidate
	}
	return rev, err == nil && candidate == 0, err
}

// settle ends the time in which what was sent and not answered may happen.
func (t *Term) settle(ctx context.Context) error {
	own := clientv3.OpPut(t.fence, t.value, clientv3.WithLease(t.lease.id))
	for {
		rev, ok, err := t.try(ctx, nil, own)
		switch {
		case ok:
			t.commits.last, t.commits.open = rev, false
			return nil
		case err == nil: // an earlier one has happened
		case !fault.Is(err, fault.Unavailable) || ctx.Err() != nil || t.ctx.Err() != nil:
			return err
		default:
			retry.Pause(ctx, RetryFirst)
		}
	}
}

// outcome finds out whether a transaction has happened, and at which revision; if not, it never will. The store was
// known to have a revision before it was sent. What is final was answered, and is not settled first.
func (t *Term) outcome(ctx context.Context, txn Txn, known int64, final bool) (rev int64, happened bool, err error) {
	at, others := int64(0), false // as its keys are now
	if !final {
		if err := t.settle(ctx); err != nil {
			return 0, false, err
		}
		at = t.commits.last
	}
	for i, key := range txn.keys() {
		now, err := t.readBack(ctx, key, at)
		switch {
		case fault.Is(err, fault.NotFound):
		case err != nil:
			return 0, false, err
		case now.ModRevision <= known:
			return 0, false, nil
		case i < len(txn.Puts) && bytes.Equal(now.Value, txn.Puts[i].Value):
			return now.ModRevision, true, nil
		default:
			others = true
		}
	}
	if others {
		return 0, false, fault.New(fault.Unavailable, "its keys are written by others")
	}
	if len(txn.Puts) > 0 {
		return 0, false, nil // none of its keys is there
	}
	return t.deletion(ctx, txn.Deletes, known, at)
}

// deletion is the revision at which keys were deleted, of which none is there any more; that of now if none was there before.
func (t *Term) deletion(ctx context.Context, keys []string, before, now int64) (rev int64, happened bool, err error) {
	for _, key := range keys {
		switch _, err := t.readBack(ctx, key, before); {
		case err == nil:
			rev, err = t.db.awaitDelete(ctx, key, before+1)
			return rev, err == nil, err
		case !fault.Is(err, fault.NotFound):
			return 0, false, err
		}
	}
	return now, true, nil
}

// readBack reads a key as it was at a revision.
func (t *Term) readBack(ctx context.Context, key string, rev int64) (KV, error) {
	for {
		kv, err := t.db.GetAt(ctx, key, rev)
		if !fault.Is(err, fault.Unavailable) || ctx.Err() != nil || t.ctx.Err() != nil {
			return kv, err
		}
		retry.Pause(ctx, RetryFirst)
	}
}

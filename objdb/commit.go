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

// A transaction whose answer is lost was executed, will be executed later, or never will be: a member of the
// store that stops, or hands leadership over, drops requests, and a closed connection may still deliver one.
// Sending it again could execute it twice, the second time after its effect was undone. So a transaction of
// Commit compares the revision of the candidate's key. After a lost answer that key is written: from then on
// earlier requests can never be executed, and the keys that the transaction writes tell whether it was. This
// costs nothing while the store answers.
//
// A member that reports a full store may have noticed that before it proposed the transaction, or when it
// applied it, which it does all the same (quotaApplierV3.Txn of etcd). It is not executed later, and here as
// well its keys tell whether it was executed.

// firstTry is the time limit of the first attempt; after a timeout the next limit is twice as long, up to the
// request timeout. A request that a member dropped while the store elected another leader is not answered
// before etcd's own limit of seconds.
const firstTry = 1500 * time.Millisecond

// commits is the state of Commit.
type commits struct {
	mu       sync.Mutex    // held for one transaction
	last     int64         // revision of the last write of the candidate's key, as far as known
	open     bool          // a transaction may still be executed
	patience time.Duration // time limit of the next answer
}

// Commit is Txn for transactions that run one after the other, each executed at most once. After a lost answer it
// finds out whether the transaction was executed, and sends it again if it never will be, for at most twice the
// request timeout; others wait meanwhile. After an error of kind Unavailable with "unknown outcome" the transaction
// may have been executed; if not, it may be executed until another Commit or Settle succeeds, and not later.
//
// Other writers of the same keys can make the outcome unknown. If one of them deletes a key after a transaction
// with a lost answer has put it, the key is put once more.
func (t *Term) Commit(ctx context.Context, txn Txn) (rev int64, ok bool, err error) {
	c := &t.commits
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 2*t.db.cfg.RequestTimeout)
	defer cancel()
	if c.open {
		// A full store accepts no key, but deletions must continue.
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

// Settle returns when no transaction that Commit has left open can be executed any more: what is read from then on
// is not changed by this term. It asks the store only if a transaction is open, and takes at most the request
// timeout.
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

// try sends operations once; they can be executed only until the candidate's key is written.
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

// settle ends the period in which unanswered requests may still be executed.
func (t *Term) settle(ctx context.Context) error {
	own := clientv3.OpPut(t.fence, t.value, clientv3.WithLease(t.lease.id))
	for {
		rev, ok, err := t.try(ctx, nil, own)
		switch {
		case ok:
			t.commits.last, t.commits.open = rev, false
			return nil
		case err == nil: // an earlier one was executed
		case !fault.Is(err, fault.Unavailable) || ctx.Err() != nil || t.ctx.Err() != nil:
			return err
		default:
			retry.Pause(ctx, RetryFirst)
		}
	}
}

// outcome finds out whether a transaction was executed, and at which revision; if not, it never will be. known is a
// revision that the store had before it was sent. final means that it was answered, so settle is not needed.
func (t *Term) outcome(ctx context.Context, txn Txn, known int64, final bool) (rev int64, happened bool, err error) {
	at, others := int64(0), false // by the present keys
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
		return 0, false, nil // none of its keys exists
	}
	return t.deletion(ctx, txn.Deletes, known, at)
}

// deletion returns the revision at which keys were deleted, none of which exists any more; now if none existed before.
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

// readBack reads a key at a revision.
func (t *Term) readBack(ctx context.Context, key string, rev int64) (KV, error) {
	for {
		kv, err := t.db.GetAt(ctx, key, rev)
		if !fault.Is(err, fault.Unavailable) || ctx.Err() != nil || t.ctx.Err() != nil {
			return kv, err
		}
		retry.Pause(ctx, RetryFirst)
	}
}

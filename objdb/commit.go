package objdb

import (
	"context"
	"errors"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// ErrUnsettled is in the error of a transaction that was sent again, and of which a guard does not
// hold by then: it may have happened at first, and changed itself what the guard is about.
var ErrUnsettled = errors.New("it was sent again, and what it depends on has changed meanwhile")

const (
	// commitTry is how long one try waits for its answer. Who leads the store drops what it is sent
	// while it hands over to another member, and nobody says so.
	commitTry = 1500 * time.Millisecond
	// commitTries is how long new tries begin: a member that is started again is back in less.
	commitTries = 4 * time.Second
)

// Txn commits a transaction under the fence of the term and returns its
// revision; ok is false if one of its own guards did not hold. If the fence is
// gone the term ends, and the error is of kind NotLeader.
//
// A transaction without an answer is sent again, within the request timeout. So one that is not to
// happen twice has a guard that fails when it has happened.
//
// An error of kind Unavailable leaves open whether the transaction happened; if it is
// ErrUnsettled, the store can be read to find out. Txn may be used after the end of the term: the fence
// makes it harmless.
func (t *Term) Txn(ctx context.Context, txn Txn) (rev int64, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.db.cfg.RequestTimeout)
	defer cancel()
	var unknown error
	for began := time.Now(); ; retry.Pause(ctx, RetryFirst) {
		last := time.Since(began) > commitTries
		rev, ok, err = t.commit(ctx, txn, last)
		switch {
		case err == nil && (ok || unknown == nil):
			return rev, ok, nil
		case err == nil:
			return 0, false, fault.New(fault.Unavailable, "commit with unknown outcome: %w: %w", ErrUnsettled, unknown)
		case fault.Is(err, fault.Unavailable):
			unknown = err
		case unknown == nil:
			return 0, false, err
		}
		if last || ctx.Err() != nil || t.ctx.Err() != nil || !fault.Is(err, fault.Unavailable) {
			return 0, false, fault.New(fault.Unavailable, "commit with unknown outcome: %w", unknown)
		}
	}
}

// commit sends a transaction once. The last try has the time that is left.
func (t *Term) commit(ctx context.Context, txn Txn, last bool) (rev int64, ok bool, err error) {
	if !last {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, commitTry)
		defer cancel()
	}
	guards := append(slices.Clone(txn.If), t.Fence())
	resp, err := Call(ctx, t.db, "commit", func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
		return c.Txn(ctx).If(Txn{If: guards}.compares()...).Then(txn.ops()...).Else(clientv3.OpGet(t.fence)).Commit()
	})
	switch {
	case err != nil:
		return 0, false, err
	case resp.Succeeded:
		return resp.Header.Revision, true, nil
	}
	candidate := resp.Responses[0].GetResponseRange()
	if len(candidate.Kvs) == 0 || candidate.Kvs[0].CreateRevision != t.epoch {
		t.end(fault.New(fault.NotLeader, "lock %s: candidate key is gone", t.lock))
		return 0, false, t.Ended()
	}
	return 0, false, nil
}

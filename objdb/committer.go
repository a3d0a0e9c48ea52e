package objdb

import (
	"context"
	"errors"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/utils/fault"
)

// maxTries bounds how often a batch is run again because others wrote.
const maxTries = 5

var errConflict = errors.New("the store has changed")

// run is the committer. It works until the term ends, finishes what it is at,
// and refuses the rest.
func (l *Ledger) run() {
	var following sync.WaitGroup
	for _, m := range l.mirrors {
		following.Go(func() { m.follow(l.term.ctx) })
	}
	defer following.Wait()
	defer l.drain()
	for {
		select {
		case <-l.term.ctx.Done():
			return
		case b := <-l.foreign:
			l.absorb(b)
		case <-l.wake:
			l.serve(l.next())
		}
	}
}

// serve commits submissions, batch by batch.
func (l *Ledger) serve(list []*submission) {
	for len(list) > 0 {
		if l.term.ctx.Err() != nil {
			refuse(list, l.term.ended())
			return
		}
		list = list[l.group(list):]
	}
}

// group commits as many submissions as fit into one batch and returns how many
// that were.
func (l *Ledger) group(list []*submission) int {
	for try := 1; ; try++ {
		if l.stale {
			if err := l.reload(l.term.ctx); err != nil {
				refuse(l.next(), err) // they have waited as long as this took
				refuse(list, err)
				return len(list)
			}
		}
		b, members, errs := l.assemble(list)
		rev, err := l.commit(b, len(members))
		if err == nil {
			for i, s := range members {
				s.finish(rev, errs[i])
			}
			return len(members)
		}
		l.stale = true
		if errors.Is(err, errConflict) {
			if try < maxTries {
				l.log.WithField("try", try).Debug("state changed by others, running plans again")
				continue
			}
			err = fault.New(fault.Conflict, "state was changed by others %d times in a row: %w", maxTries, err)
		}
		refuse(members, err)
		return len(members)
	}
}

// assemble runs the plans that fit into one batch. A plan that fails is a
// member too: its error may be owed to writes of the plans before it, so it is
// as good as their commit.
func (l *Ledger) assemble(list []*submission) (*batch, []*submission, []error) {
	b := newBatch(l.state.Load(), l.owned, l.corrupt)
	b.maxOps = l.maxOps
	var errs []error
	for _, s := range list {
		err, fits := b.add(s.plan)
		if !fits {
			break
		}
		errs = append(errs, err)
	}
	return b, list[:len(errs)], errs
}

// commit writes a batch and makes it the ledger's state.
func (l *Ledger) commit(b *batch, plans int) (int64, error) {
	t, fits, err := b.txn()
	if err != nil {
		return 0, err
	}
	if fits && len(t.Puts)+len(t.Deletes) == 0 {
		return l.revision, nil
	}
	// A transaction that was sent is waited for even when the term ends:
	// whoever asked for it wants to know, and the fence keeps it harmless.
	ctx := context.WithoutCancel(l.term.ctx)
	if !fits {
		if err := l.journaledCommit(ctx, b, plans); err != nil {
			return 0, err
		}
	} else {
		rev, err := l.send(ctx, t, plans)
		if err != nil {
			return 0, err
		}
		l.record(b.tree, t, rev)
	}
	l.publish(b.tree)
	return l.revision, nil
}

// send commits one transaction and tells the observer.
func (l *Ledger) send(ctx context.Context, t Txn, plans int) (int64, error) {
	began := time.Now()
	rev, err := l.fenced(ctx, t)
	l.db.cfg.Observer.Committed(plans, len(t.Puts)+len(t.Deletes), time.Since(began), err)
	return rev, err
}

// record notes the revision of a transaction that was committed.
func (l *Ledger) record(t *tree, txn Txn, rev int64) {
	for _, kv := range txn.Puts {
		t.ReplaceOrInsert(record{key: kv.Key, value: kv.Value, rev: rev})
		delete(l.deleted, kv.Key)
	}
	for _, key := range txn.Deletes {
		l.deleted[key] = rev
	}
	l.revision = max(l.revision, rev)
}

// fenced sends one transaction under the fence of the term.
func (l *Ledger) fenced(ctx context.Context, t Txn) (int64, error) {
	t.If = append(t.If, l.term.Fence())
	resp, err := request(ctx, l.db, "commit", func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
		return c.Txn(ctx).If(t.compares()...).Then(t.ops()...).Else(clientv3.OpGet(l.term.fence)).Commit()
	})
	if fault.Is(err, fault.Unavailable) {
		return 0, fault.New(fault.Unavailable, "commit with unknown outcome: %w", err)
	}
	if err != nil {
		return 0, err
	}
	if resp.Succeeded {
		return resp.Header.Revision, nil
	}
	candidate := resp.Responses[0].GetResponseRange()
	if len(candidate.Kvs) == 0 || candidate.Kvs[0].CreateRevision != l.term.epoch {
		l.term.end(fault.New(fault.NotLeader, "lock %s: candidate key is gone", l.term.lock))
		return 0, l.term.ended()
	}
	return 0, errConflict
}

package ledger

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

// maxTries bounds how often a group is run again because others wrote.
const maxTries = 5

var errConflict = errors.New("the store has changed")

// run is the committer. It works until the term ends, finishes what it is at,
// and refuses the rest.
func (l *Ledger) run() {
	var following sync.WaitGroup
	for _, m := range l.mirrors {
		following.Go(func() { m.Follow(l.term.Context()) })
	}
	defer following.Wait()
	defer l.drain()
	for {
		select {
		case <-l.term.Context().Done():
			return
		case b := <-l.foreign:
			l.absorb(b)
		case <-l.wake:
			l.serve(l.next())
		}
	}
}

// serve commits submissions, group by group.
func (l *Ledger) serve(list []*submission) {
	for len(list) > 0 {
		if l.term.Context().Err() != nil {
			refuse(list, l.term.Ended())
			return
		}
		list = list[l.commitSome(list):]
	}
}

// commitSome commits as many submissions as fit into one group and returns how many
// that were.
func (l *Ledger) commitSome(list []*submission) int {
	for try := 1; ; try++ {
		if l.stale {
			if err := l.reload(l.term.Context()); err != nil {
				refuse(l.next(), err) // they have waited as long as this took
				refuse(list, err)
				return len(list)
			}
		}
		g, members, errs := l.assemble(list)
		rev, err := l.commit(g, len(members))
		if err == nil {
			for i, s := range members {
				s.finish(rev, errs[i])
			}
			return len(members)
		}
		if errors.Is(err, errBehind) {
			if err = l.await(); err == nil {
				continue
			}
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

// assemble runs the plans that fit into one group. A plan that fails is a
// member too: its error may be owed to writes of the plans before it, so it is
// as good as their commit.
func (l *Ledger) assemble(list []*submission) (*group, []*submission, []error) {
	g := newGroup(l.state.Load(), l.owned, l.corrupt)
	g.maxOps, g.admit = l.maxOps, l.admit
	var errs []error
	for _, s := range list {
		err, fits := g.add(s.ctx, s.plan)
		if !fits {
			break
		}
		errs = append(errs, err)
	}
	return g, list[:len(errs)], errs
}

// commit writes a group and makes it the ledger's state.
func (l *Ledger) commit(g *group, plans int) (int64, error) {
	t, fits, err := g.txn()
	if err != nil {
		return 0, err
	}
	if fits && len(t.Puts)+len(t.Deletes) == 0 {
		return l.newest, nil
	}
	// A transaction that was sent is waited for even when the term ends:
	// whoever asked for it wants to know, and the fence keeps it harmless.
	ctx := context.WithoutCancel(l.term.Context())
	if !fits {
		if err := l.journaledCommit(ctx, g, plans); err != nil {
			return 0, err
		}
	} else {
		rev, err := l.send(ctx, t, plans)
		if err != nil {
			return 0, err
		}
		l.record(g.tree, t, rev)
	}
	l.publish(g.tree)
	return l.newest, nil
}

// send commits one transaction and tells the observer.
func (l *Ledger) send(ctx context.Context, t objdb.Txn, plans int) (int64, error) {
	began := time.Now()
	rev, err := l.fenced(ctx, t)
	l.observer.Committed(plans, len(t.Puts)+len(t.Deletes), time.Since(began), err)
	return rev, err
}

// record notes the revision of a transaction that was committed.
func (l *Ledger) record(t *tree, txn objdb.Txn, rev int64) {
	for _, kv := range txn.Puts {
		t.ReplaceOrInsert(record{key: kv.Key, value: kv.Value, rev: rev})
		delete(l.deleted, kv.Key)
		l.own[l.owned.of(kv.Key)] = rev
	}
	for _, key := range txn.Deletes {
		l.deleted[key] = rev
		l.own[l.owned.of(key)] = rev
	}
	l.newest = max(l.newest, rev)
}

// fenced sends one transaction under the fence of the term.
func (l *Ledger) fenced(ctx context.Context, t objdb.Txn) (int64, error) {
	rev, ok, err := l.term.Txn(ctx, t)
	if err == nil && !ok {
		err = errConflict
	}
	return rev, err
}

package ledger

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

// maxTries limits how often a group is run again because of writes of others. After patientTries the state is
// read again, without waiting for the watch.
const (
	maxTries     = 5
	patientTries = 2
)

var errConflict = errors.New("the store has changed")

// run is the committer. It works until the term ends, completes the current group, and refuses the rest.
func (l *Ledger) run() {
	var others sync.WaitGroup
	others.Go(func() { l.mirror.Follow(l.term.Context()) })
	others.Go(l.prepare)
	defer others.Wait()
	defer l.drain()
	for {
		select {
		case <-l.term.Context().Done():
			return
		case b := <-l.foreign:
			l.absorb(b)
		case ask := <-l.asks:
			ask()
		case <-l.small.wake:
			l.serve(claimed(l.small.take()))
		case <-l.due:
			l.resume()
		case <-l.later:
			l.resume()
		}
	}
}

// inCommitter runs a function between two groups and returns its error,
// or the error of the end of the term, after which it does not run.
func (l *Ledger) inCommitter(f func() error) error {
	done := make(chan error)
	select {
	case l.asks <- func() { done <- f() }:
		return <-done
	case <-l.term.Context().Done():
		return l.term.Ended()
	}
}

// resume stores the next part of a large plan, or reads the state again, and then serves the waiting plans.
func (l *Ledger) resume() {
	l.later = nil
	var failed error
	switch {
	case l.decided != nil:
		l.store()
	case l.stale:
		failed = l.refresh()
	}
	list := append(l.held, claimed(l.small.take())...)
	l.held = nil
	if failed != nil { // refused at once: their callers have waited for the whole read
		refuse(list, failed)
		return
	}
	l.serve(list)
}

// store stores the next part of the decided plan. It must succeed eventually: it is retried until it does or the
// term ends.
func (l *Ledger) store() {
	d := l.decided
	s, err := l.storeSome(context.WithoutCancel(l.term.Context()), d)
	switch {
	case fault.Is(err, fault.Conflict):
		l.log.WithError(err).Error("a journal was changed by another hand, its plan is not finished")
		l.stale, l.decided = true, nil
		d.end(err)
		l.due.Send() // readers see a part that is not stored, and never will be
		return
	case err != nil:
		l.log.WithError(err).Warn("storing a large plan, trying again")
		l.later = time.After(l.pace.Next())
		return
	}
	l.pace.Reset()
	t := l.state.Load().Clone()
	for _, c := range s.changes {
		c.put(t, s.rev)
		l.note(c.key, c.delete, s.rev)
	}
	for _, kv := range s.newer {
		t.ReplaceOrInsert(record{key: kv.Key, value: kv.Value, rev: kv.ModRevision})
	}
	l.newest = max(l.newest, s.rev)
	l.publish(t)
	if s.before { // the cache has them, but others may have written the same keys since
		l.stale = true
	}
	if d.left() == 0 {
		l.decided = nil
	}
	if l.decided != nil || l.stale {
		l.due.Send()
	}
}

// refresh reads the state again when readers see one that is not the store's. After an error it is retried
// later, unless the next plan has done it by then.
func (l *Ledger) refresh() error {
	if err := l.reload(l.term.Context()); err != nil {
		l.log.WithError(err).Warn("reading the state again, trying once more")
		l.later = time.After(l.pace.Next())
		return err
	}
	l.pace.Reset()
	return nil
}

// drain refuses all waiting and future plans.
func (l *Ledger) drain() {
	l.small.close(l.term.Ended())
	l.large.close(l.term.Ended())
	refuse(l.held, l.term.Ended())
}

// serve commits submissions, group by group.
func (l *Ledger) serve(list []*submission) {
	if l.alone {
		l.held = append(l.held, list...)
		return
	}
	for len(list) > 0 {
		if l.term.Context().Err() != nil {
			refuse(list, l.term.Ended())
			return
		}
		list = list[l.commitSome(list):]
	}
}

// commitSome commits as many submissions as fit into one group and returns how many it has handled. If the
// store has no room for a group of several plans, they run again: plans that put are refused, so that
// deletions, which make room, are not.
func (l *Ledger) commitSome(list []*submission) int {
	var noRoom error // the store's error
	for try := 1; ; {
		if l.stale {
			if err := l.reload(l.term.Context()); err != nil {
				refuse(claimed(l.small.take()), err) // they have waited for the whole read
				refuse(list, err)
				return len(list)
			}
		}
		a := l.assemble(list, noRoom)
		rev, err := l.commit(a.group, len(a.members))
		if errors.Is(err, errBehind) {
			if err = l.await(); err == nil {
				continue
			}
		}
		if l.lowerMaxOps(err) {
			continue
		}
		if fault.Is(err, fault.Exhausted) && len(a.members) > 1 && noRoom == nil {
			noRoom = err
			continue
		}
		if err != nil {
			l.stale = try > patientTries || l.mustReload(err)
			if errors.Is(err, errConflict) && try < maxTries {
				l.log.WithField("try", try).Debug("state changed by others, running plans again")
				try++
				continue
			}
			if errors.Is(err, errConflict) {
				err = fault.New(fault.Conflict, "state was changed by others %d times in a row: %w", maxTries, err)
			}
		}
		for i, s := range a.members {
			if err != nil {
				s.finish(0, err)
			} else {
				s.finish(rev, a.errs[i])
			}
		}
		l.held = append(l.held, a.held...)
		for _, s := range a.large {
			l.large.hand(s, l.term)
		}
		return len(a.members) + len(a.held) + len(a.large)
	}
}

// mustReload reports whether the state has to be read from the store before the next plan, after an error of a
// transaction. Writes of others since the last read arrive by the watch.
func (l *Ledger) mustReload(err error) bool {
	if errors.Is(err, errConflict) {
		return !l.awaitForeignChange()
	}
	return !isNotTaken(err)
}

// isNotTaken reports whether an error means that the store has not executed a transaction, so that the cache is
// still right.
func isNotTaken(err error) bool {
	return fault.Is(err, fault.Exhausted) || fault.Is(err, fault.TooLarge) || fault.Is(err, fault.Denied)
}

// lowerMaxOps reports whether to repeat a transaction that the store has refused for its number of operations,
// although it has accepted as many before: another member has answered, whose limit is lower. It lowers the ledger's
// limit until the next term.
func (l *Ledger) lowerMaxOps(err error) bool {
	if !objdb.TooManyOps(err) || l.maxOps <= objdb.FewOps {
		return false
	}
	now := objdb.FewerOps(l.maxOps)
	l.log.WithFields(logrus.Fields{"before": l.maxOps, "now": now}).Warn("a member of the store takes fewer operations in a transaction")
	l.maxOps = now
	return true
}

// assembly is a group and the results of the submissions before the first that does not fit.
type assembly struct {
	group       *group
	members     []*submission
	errs        []error // of the members' plans
	held, large []*submission
}

// assemble runs the plans that fit into one group. A plan that fails is a member as well: its error may depend on
// writes of the plans before it, so it is valid only if these are committed. With noRoom, plans that put fail with
// that error.
func (l *Ledger) assemble(list []*submission, noRoom error) (a assembly) {
	a.group = l.newGroup()
	a.group.noRoom = noRoom
	for _, s := range list {
		var err error
		v := taken
		if err = s.ctx.Err(); err != nil {
			err = notStarted(s.ctx) // its caller has given up
		} else {
			v, err = a.group.add(s.ctx, s.plan)
		}
		switch v {
		case taken:
			a.members, a.errs = append(a.members, s), append(a.errs, err)
		case blocked:
			a.held = append(a.held, s)
		case oversize: // also the first with any writes
			a.large = append(a.large, s)
			a.group = l.newGroup()
			a.group.noRoom = noRoom
		case full:
			return a
		}
	}
	return a
}

func (l *Ledger) newGroup() *group {
	g := newGroup(l.state.Load(), l.owned, l.corrupt)
	g.maxOps, g.admit, g.derive, g.waits, g.reserved, g.decoded = l.maxOps, l.admit, l.derive, l.decided, l.reserved, &l.decoded
	return g
}

// commit writes a group and makes it the ledger's state. Plans that only read are valid if the term still is.
func (l *Ledger) commit(g *group, plans int) (int64, error) {
	t, err := g.txn()
	if err != nil {
		return 0, err
	}
	if len(t.Puts)+len(t.Deletes) == 0 {
		return l.newest, l.term.Trusted() // without a request to the store
	}
	// A sent transaction is waited for even if the term ends: its caller needs the result, and the fence keeps it
	// harmless.
	rev, err := l.send(context.WithoutCancel(l.term.Context()), l.term.Commit, t, plans)
	if err != nil {
		return 0, err
	}
	l.record(g.tree, t, rev)
	l.publish(g.tree)
	return l.newest, nil
}

// send commits one transaction, by Txn or Commit of the term, and reports it to the observer.
func (l *Ledger) send(ctx context.Context, by func(context.Context, objdb.Txn) (int64, bool, error), t objdb.Txn, plans int) (int64, error) {
	began := time.Now()
	rev, err := fenced(by(ctx, t))
	l.observer.Committed(plans, len(t.Puts)+len(t.Deletes), time.Since(began), err)
	return rev, err
}

// record records the revision of a committed transaction.
func (l *Ledger) record(t *tree, txn objdb.Txn, rev int64) {
	for _, kv := range txn.Puts {
		t.ReplaceOrInsert(record{key: kv.Key, value: kv.Value, rev: rev})
		l.note(kv.Key, false, rev)
	}
	for _, key := range txn.Deletes {
		l.note(key, true, rev)
	}
	l.newest = max(l.newest, rev)
}

// note records an own write of one key.
func (l *Ledger) note(key string, deleted bool, rev int64) {
	if deleted {
		l.deleted[key] = rev
	} else {
		delete(l.deleted, key)
	}
	l.own = max(l.own, rev)
	l.since.note(key)
}

// fenced returns the result of a transaction under the fence of the term.
func fenced(rev int64, ok bool, err error) (int64, error) {
	if err == nil && !ok {
		err = errConflict
	}
	return rev, err
}

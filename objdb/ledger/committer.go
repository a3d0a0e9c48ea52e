package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/notify"
	"github.com/contiv/netplugin/utils/retry"
)

// maxTries limits how often a group is run again because of writes of others. After patientTries the state is
// read again, without waiting for the watch.
const (
	maxTries     = 5
	patientTries = 2
)

var errConflict = errors.New("the store has changed")

// committer runs plans on the cache and commits them in groups. Only its own goroutine uses it, and before that Open.
// Others reach it by the queues and by preparer.inCommitter.
type committer struct {
	*shared
	indexes []Index
	maxOps  int // in one transaction; it may be lowered

	foreign chan mirror.Batch // from the mirror
	horizon
	own      int64            // revision of the last own commit
	loaded   int64            // revision of the last listing, which includes older events
	deleted  map[string]int64 // own deletions whose event has not arrived yet
	stale    bool             // the state may differ from the store's: it is read again before the next plan
	patience time.Duration    // how long writes of others may take to arrive by watch
	held     []*submission    // waiting for a large plan
	decided  *decided         // large plan being stored; nil: none
	since    *since           // changes since a large plan ran; nil: none runs
	reserved *footprint       // what others must not change while a large plan runs; nil: no restriction
	alone    bool             // a large plan runs alone
	due      notify.Signal    // held plans or the decided one may continue, or the state is to be read again
	later    <-chan time.Time // the same, after a failure
	pace     *retry.Pacer     // of these retries
}

// run works until the term ends, completes the current group, and refuses the rest.
func (c *committer) run() {
	defer c.drain()
	for {
		select {
		case <-c.term.Context().Done():
			return
		case b := <-c.foreign:
			c.absorb(b)
		case ask := <-c.asks:
			ask(c)
		case <-c.small.wake:
			c.serve(claimed(c.small.take()))
		case <-c.due:
			c.resume()
		case <-c.later:
			c.resume()
		}
	}
}

// resume stores the next part of a large plan, or reads the state again, and then serves the waiting plans.
func (c *committer) resume() {
	c.later = nil
	var failed error
	switch {
	case c.decided != nil:
		c.store()
	case c.stale:
		failed = c.refresh()
	}
	list := append(c.held, claimed(c.small.take())...)
	c.held = nil
	if failed != nil { // refused at once: their callers have waited for the whole read
		refuse(list, failed)
		return
	}
	c.serve(list)
}

// store stores the next part of the decided plan. It must succeed eventually: it is retried until it does or the
// term ends.
func (c *committer) store() {
	d := c.decided
	s, err := c.storeSome(context.WithoutCancel(c.term.Context()), d)
	switch {
	case fault.Is(err, fault.Conflict):
		c.log.WithError(err).Error("a journal was changed by another hand, its plan is not finished")
		c.stale, c.decided = true, nil
		d.end(err)
		c.due.Send() // readers see a part that is not stored, and never will be
		return
	case err != nil:
		c.log.WithError(err).Warn("storing a large plan, trying again")
		c.later = time.After(c.pace.Next())
		return
	}
	c.pace.Reset()
	t := c.state.Load().Clone()
	for _, one := range s.changes {
		one.put(t, s.rev)
		c.note(one.key, one.delete, s.rev)
	}
	for _, kv := range s.newer {
		t.ReplaceOrInsert(record{key: kv.Key, value: kv.Value, rev: kv.ModRevision})
	}
	c.newest = max(c.newest, s.rev)
	c.publish(t)
	if s.before { // the cache has them, but others may have written the same keys since
		c.stale = true
	}
	if d.left() == 0 {
		c.decided = nil
	}
	if c.decided != nil || c.stale {
		c.due.Send()
	}
}

// refresh reads the state again when readers see one that is not the store's. After an error it is retried
// later, unless the next plan has done it by then.
func (c *committer) refresh() error {
	if err := c.reload(c.term.Context()); err != nil {
		c.log.WithError(err).Warn("reading the state again, trying once more")
		c.later = time.After(c.pace.Next())
		return err
	}
	c.pace.Reset()
	return nil
}

// drain refuses all waiting and future plans.
func (c *committer) drain() {
	c.small.close(c.term.Ended())
	c.large.close(c.term.Ended())
	refuse(c.held, c.term.Ended())
}

// serve commits submissions, group by group.
func (c *committer) serve(list []*submission) {
	if c.alone {
		c.held = append(c.held, list...)
		return
	}
	for len(list) > 0 {
		if c.term.Context().Err() != nil {
			refuse(list, c.term.Ended())
			return
		}
		list = list[c.commitSome(list):]
	}
}

// commitSome commits as many submissions as fit into one group and returns how many it has handled. If the
// store has no room for a group of several plans, they run again: plans that put are refused, so that
// deletions, which make room, are not.
func (c *committer) commitSome(list []*submission) int {
	var noRoom error // the store's error
	for try := 1; ; {
		if c.stale {
			if err := c.reload(c.term.Context()); err != nil {
				refuse(claimed(c.small.take()), err) // they have waited for the whole read
				refuse(list, err)
				return len(list)
			}
		}
		a := c.assemble(list, noRoom)
		rev, err := c.commit(a.group, len(a.members))
		if errors.Is(err, errBehind) {
			if err = c.await(); err == nil {
				continue
			}
		}
		if c.lowerMaxOps(err) {
			continue
		}
		if fault.Is(err, fault.Exhausted) && len(a.members) > 1 && noRoom == nil {
			noRoom = err
			continue
		}
		if err != nil {
			c.stale = try > patientTries || c.mustReload(err)
			if errors.Is(err, errConflict) && try < maxTries {
				c.log.WithField("try", try).Debug("state changed by others, running plans again")
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
		c.held = append(c.held, a.held...)
		for _, s := range a.large {
			c.large.hand(s, c.term)
		}
		return len(a.members) + len(a.held) + len(a.large)
	}
}

// mustReload reports whether the state has to be read from the store before the next plan, after an error of a
// transaction. Writes of others since the last read arrive by the watch.
func (c *committer) mustReload(err error) bool {
	if errors.Is(err, errConflict) {
		return !c.awaitForeignChange()
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
func (c *committer) lowerMaxOps(err error) bool {
	if !objdb.TooManyOps(err) || c.maxOps <= objdb.FewOps {
		return false
	}
	now := objdb.FewerOps(c.maxOps)
	c.log.WithFields(logrus.Fields{"before": c.maxOps, "now": now}).Warn("a member of the store takes fewer operations in a transaction")
	c.maxOps = now
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
func (c *committer) assemble(list []*submission, noRoom error) (a assembly) {
	a.group = c.newGroup()
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
			a.group = c.newGroup()
			a.group.noRoom = noRoom
		case full:
			return a
		}
	}
	return a
}

func (c *committer) newGroup() *group {
	g := newGroup(c.state.Load(), c.owned, c.corrupt)
	g.maxOps, g.admit, g.derive, g.waits, g.reserved, g.decoded = c.maxOps, c.admit, c.derive, c.decided, c.reserved, &c.decoded
	return g
}

// commit writes a group and makes it the ledger's state. Plans that only read are valid if the term still is.
func (c *committer) commit(g *group, plans int) (int64, error) {
	t, err := g.txn()
	if err != nil {
		return 0, err
	}
	if len(t.Puts)+len(t.Deletes) == 0 {
		return c.newest, c.term.Trusted() // without a request to the store
	}
	// A sent transaction is waited for even if the term ends: its caller needs the result, and the fence keeps it
	// harmless.
	rev, err := c.send(context.WithoutCancel(c.term.Context()), c.term.Commit, t, plans)
	if err != nil {
		return 0, err
	}
	c.record(g.tree, t, rev)
	c.publish(g.tree)
	return c.newest, nil
}

// record records the revision of a committed transaction.
func (c *committer) record(t *tree, txn objdb.Txn, rev int64) {
	for _, kv := range txn.Puts {
		t.ReplaceOrInsert(record{key: kv.Key, value: kv.Value, rev: rev})
		c.note(kv.Key, false, rev)
	}
	for _, key := range txn.Deletes {
		c.note(key, true, rev)
	}
	c.newest = max(c.newest, rev)
}

// note records an own write of one key.
func (c *committer) note(key string, deleted bool, rev int64) {
	if deleted {
		c.deleted[key] = rev
	} else {
		delete(c.deleted, key)
	}
	c.own = max(c.own, rev)
	c.since.note(key)
}

// merge adds the commits of others since a large plan ran to the state of the plan; they do not concern its keys.
func (c *committer) merge(g *group) {
	current := c.state.Load()
	for key := range c.since.keys {
		if r, ok := current.Get(record{key: key}); ok {
			g.tree.ReplaceOrInsert(r)
		} else {
			g.tree.Delete(record{key: key})
		}
	}
}

// releaseReserved permits others to change the keys that were reserved for a large plan, which does not run any more.
func (c *committer) releaseReserved() { c.since, c.reserved, c.alone = nil, nil, false }

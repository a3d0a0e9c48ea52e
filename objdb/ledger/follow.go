package ledger

import (
	"context"
	"maps"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/utils/fault"
)

// manyDeleted is the number of own deletions that are kept before old ones are dropped.
const manyDeleted = 1024

// awaitOwn is how long own commits may take to arrive by watch, awaitOthers how long a write that caused a
// refusal may take, before the store is listed.
const (
	awaitOwn    = 5 * time.Second
	awaitOthers = time.Second
)

// begin completes what earlier terms have left, and sets the first state: that of the standby, if it is recent
// enough, or otherwise a listing.
func (c *committer) begin(ctx context.Context, standby *Standby) (err error) {
	if c.maxOps, err = c.db.MaxOps(ctx); err != nil {
		return err
	}
	written, err := c.recover(ctx)
	if err != nil {
		return err
	}
	if err := c.takeOver(ctx, standby, max(c.term.Won(), written)); err != nil {
		return err
	}
	c.mirror.Seed(c.state.Load().keys(), c.loaded)
	return nil
}

// takeOver sets the first state, at a revision not before rev.
func (c *committer) takeOver(ctx context.Context, standby *Standby, rev int64) error {
	if standby == nil {
		c.log.Info("the state is listed")
		return c.load(ctx)
	}
	t, at, err := standby.take(ctx, rev)
	if err != nil {
		c.log.WithError(err).Info("the state is listed")
		return c.load(ctx)
	}
	c.replace(t, at)
	return nil
}

// load lists the owned prefixes at one revision and makes that the state.
func (c *committer) load(ctx context.Context) error {
	var all []objdb.KV
	rev := int64(0)
	for _, p := range c.owned {
		kvs, at, err := c.db.ListAt(ctx, p, rev)
		if err != nil {
			return err
		}
		all, rev = append(all, kvs...), at
	}
	t := buildTree(all, c.indexes...)
	if c.decided != nil {
		if c.decided.overlay(t); c.decided.left() == 0 {
			c.decided = nil // stored, by a transaction with a lost answer
		}
	}
	c.replace(t, rev)
	return nil
}

// replace sets the state to that of the store at a revision.
func (c *committer) replace(t *tree, rev int64) {
	c.loaded, c.newest = rev, max(c.newest, rev)
	c.seen = max(c.seen, rev)
	c.publish(t)
}

// publish sets the state that is read from now on.
func (c *committer) publish(t *tree) {
	t.horizon = c.horizon
	c.state.Store(t)
}

// reload replaces the cache by the state of the store. It first waits until no sent transaction can still be
// executed: the guards of plans do not cover their searches. A full store cannot confirm that, and deletions must
// continue.
func (c *committer) reload(ctx context.Context) error {
	if err := c.term.Settle(ctx); err != nil && !fault.Is(err, fault.Exhausted) {
		return err
	}
	if err := c.load(ctx); err != nil {
		return err
	}
	c.stale = false
	clear(c.deleted)
	if c.since != nil {
		c.since.all = true
	}
	return nil
}

// deliver hands batches of the mirror to the committer.
func deliver(to chan<- mirror.Batch, term *objdb.Term) func(mirror.Batch) {
	return func(b mirror.Batch) {
		select {
		case to <- b:
		case <-term.Context().Done():
		}
	}
}

// absorb applies changes from other writers to the cache. Own commits
// arrive here as well and are no news; it reports whether there was any.
func (c *committer) absorb(b mirror.Batch) (news bool) {
	c.newest = max(c.newest, b.Revision)
	c.seen = max(c.seen, b.Revision)
	current := c.state.Load()
	var next *tree
	for _, e := range b.Events {
		if !c.news(current, e) {
			continue
		}
		if next == nil {
			next = current.Clone()
		}
		c.since.note(e.Key)
		if e.Value == nil {
			next.Delete(record{key: e.Key})
		} else {
			next.ReplaceOrInsert(record{key: e.Key, value: e.Value, rev: e.ModRevision})
		}
	}
	if news = next != nil; !news {
		next = current.Clone()
	}
	c.publish(next)
	c.forget()
	return news
}

// news reports whether an event is newer than what the cache knows about its key.
func (c *committer) news(t *tree, e mirror.Event) bool {
	if e.ModRevision <= c.loaded {
		return false
	}
	if gone, ok := c.deleted[e.Key]; ok {
		if e.ModRevision >= gone {
			delete(c.deleted, e.Key)
		}
		return e.ModRevision > gone
	}
	had, held := t.Get(record{key: e.Key})
	return e.ModRevision > had.rev && (held || e.Value != nil)
}

// forget drops deletions of keys that the mirror cannot return to.
func (c *committer) forget() {
	if len(c.deleted) < manyDeleted {
		return
	}
	passed := min(c.newest, c.mirror.Revision())
	maps.DeleteFunc(c.deleted, func(_ string, rev int64) bool { return rev <= passed })
}

// awaitForeignChange waits until the watch has delivered a write of others, and reports whether it did in time.
// Often it has arrived before a transaction is refused because of it.
func (c *committer) awaitForeignChange() bool {
	patience := time.NewTimer(c.patience)
	defer patience.Stop()
	for {
		select {
		case b := <-c.foreign:
			if c.absorb(b) {
				return true
			}
		case <-c.term.Context().Done():
			return false
		case <-patience.C:
			return false
		}
	}
}

// await returns when all own commits have arrived by watch, so that
// everything that others wrote before them has arrived as well.
func (c *committer) await() error {
	patience := time.NewTimer(awaitOwn)
	defer patience.Stop()
	for c.seen < c.own {
		select {
		case b := <-c.foreign:
			c.absorb(b)
		case <-c.term.Context().Done():
			return c.term.Ended()
		case <-patience.C:
			return fault.New(fault.Unavailable, "what was written has not come back by watch within %s", awaitOwn)
		}
	}
	return nil
}

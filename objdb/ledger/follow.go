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

// begin sets the first state, at a revision not before rev: that
// of the standby, if it is recent enough, or otherwise a listing.
func (l *Ledger) begin(ctx context.Context, standby *Standby, rev int64) error {
	if standby == nil {
		l.log.Info("the state is listed")
		return l.load(ctx)
	}
	t, at, err := standby.take(ctx, rev)
	if err != nil {
		l.log.WithError(err).Info("the state is listed")
		return l.load(ctx)
	}
	l.replace(t, at)
	return nil
}

// load lists the owned prefixes at one revision and makes that the state.
func (l *Ledger) load(ctx context.Context) error {
	var all []objdb.KV
	rev := int64(0)
	for _, p := range l.owned {
		kvs, at, err := l.db.ListAt(ctx, p, rev)
		if err != nil {
			return err
		}
		all, rev = append(all, kvs...), at
	}
	t := buildTree(all, l.indexes...)
	if l.decided != nil {
		if l.decided.overlay(t); l.decided.left() == 0 {
			l.decided = nil // stored, by a transaction with a lost answer
		}
	}
	l.replace(t, rev)
	return nil
}

// replace sets the state to that of the store at a revision.
func (l *Ledger) replace(t *tree, rev int64) {
	l.loaded, l.newest = rev, max(l.newest, rev)
	l.seen = max(l.seen, rev)
	l.publish(t)
}

// publish sets the state that is read from now on.
func (l *Ledger) publish(t *tree) {
	t.horizon = l.horizon
	l.state.Store(t)
}

// reload replaces the cache by the state of the store. It first waits until no sent transaction can still be
// executed: the guards of plans do not cover their searches. A full store cannot confirm that, and deletions must
// continue.
func (l *Ledger) reload(ctx context.Context) error {
	if err := l.term.Settle(ctx); err != nil && !fault.Is(err, fault.Exhausted) {
		return err
	}
	if err := l.load(ctx); err != nil {
		return err
	}
	l.stale = false
	clear(l.deleted)
	if l.since != nil {
		l.since.all = true
	}
	return nil
}

// deliver hands a batch of the mirror to the committer.
func (l *Ledger) deliver(b mirror.Batch) {
	select {
	case l.foreign <- b:
	case <-l.term.Context().Done():
	}
}

// absorb applies changes from other writers to the cache. Own commits
// arrive here as well and are no news; it reports whether there was any.
func (l *Ledger) absorb(b mirror.Batch) (news bool) {
	l.newest = max(l.newest, b.Revision)
	l.seen = max(l.seen, b.Revision)
	current := l.state.Load()
	var next *tree
	for _, e := range b.Events {
		if !l.news(current, e) {
			continue
		}
		if next == nil {
			next = current.Clone()
		}
		l.since.note(e.Key)
		if e.Value == nil {
			next.Delete(record{key: e.Key})
		} else {
			next.ReplaceOrInsert(record{key: e.Key, value: e.Value, rev: e.ModRevision})
		}
	}
	if news = next != nil; !news {
		next = current.Clone()
	}
	l.publish(next)
	l.forget()
	return news
}

// news reports whether an event is newer than what the cache knows about its key.
func (l *Ledger) news(t *tree, e mirror.Event) bool {
	if e.ModRevision <= l.loaded {
		return false
	}
	if gone, ok := l.deleted[e.Key]; ok {
		if e.ModRevision >= gone {
			delete(l.deleted, e.Key)
		}
		return e.ModRevision > gone
	}
	had, held := t.Get(record{key: e.Key})
	return e.ModRevision > had.rev && (held || e.Value != nil)
}

// forget drops deletions of keys that the mirror cannot return to.
func (l *Ledger) forget() {
	if len(l.deleted) < manyDeleted {
		return
	}
	passed := min(l.newest, l.mirror.Revision())
	maps.DeleteFunc(l.deleted, func(_ string, rev int64) bool { return rev <= passed })
}

// awaitForeignChange waits until the watch has delivered a write of others, and reports whether it did in time.
// Often it has arrived before a transaction is refused because of it.
func (l *Ledger) awaitForeignChange() bool {
	patience := time.NewTimer(l.patience)
	defer patience.Stop()
	for {
		select {
		case b := <-l.foreign:
			if l.absorb(b) {
				return true
			}
		case <-l.term.Context().Done():
			return false
		case <-patience.C:
			return false
		}
	}
}

// await returns when all own commits have arrived by watch, so that
// everything that others wrote before them has arrived as well.
func (l *Ledger) await() error {
	patience := time.NewTimer(awaitOwn)
	defer patience.Stop()
	for l.seen < l.own {
		select {
		case b := <-l.foreign:
			l.absorb(b)
		case <-l.term.Context().Done():
			return l.term.Ended()
		case <-patience.C:
			return fault.New(fault.Unavailable, "what was written has not come back by watch within %s", awaitOwn)
		}
	}
	return nil
}

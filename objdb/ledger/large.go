package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// politeTries is how often a large plan runs concurrently with the others before these may no longer change what it
// used in the try before. In its last try all others wait, because a plan may use other keys in each run.
const politeTries = 2

// outage is how long a large plan is retried that the store could not accept.
const outage = 10 * time.Second

// errNotCommitted is in the error of a plan that can no longer be committed, because the store did not answer.
var errNotCommitted = errors.New("not committed")

// prepare runs large plans, one after the other, until the term ends.
func (l *Ledger) prepare() {
	for {
		select {
		case <-l.term.Context().Done():
			return
		case <-l.large.wake:
			for _, s := range claimed(l.large.take()) {
				if l.term.Context().Err() != nil {
					s.finish(0, l.term.Ended())
					continue
				}
				l.commitLarge(s)
			}
		}
	}
}

// commitLarge runs one large plan to completion.
func (l *Ledger) commitLarge(s *submission) {
	began := time.Now()
	var used *footprint
	for try := 1; ; {
		rev, err := l.attempt(s, try, &used)
		switch {
		case errors.Is(err, errNotCommitted) && time.Since(began) < outage && s.ctx.Err() == nil && l.term.Context().Err() == nil:
			l.log.WithError(err).Debug("running a large plan again")
			continue
		case errors.Is(err, errConflict) && try < maxTries:
			l.log.WithField("try", try).Debug("state changed by others, running a large plan again")
			try++
			continue
		case errors.Is(err, errConflict):
			err = fault.New(fault.Conflict, "state was changed by others %d times in a row: %w", maxTries, err)
		}
		s.finish(rev, err)
		return
	}
}

// attempt runs a large plan on the present state and commits it, unless a key that it has read or written
// changes meanwhile. It replaces used, the footprint of the try before.
func (l *Ledger) attempt(s *submission, try int, used **footprint) (rev int64, err error) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	defer context.AfterFunc(l.term.Context(), cancel)()

	var base *tree
	var maxOps int
	err = l.inCommitter(func() error {
		if l.stale {
			if err := l.reload(ctx); err != nil {
				return err
			}
		}
		if l.alone = try == maxTries; try > politeTries {
			l.reserved = *used
		}
		l.since = &since{keys: map[string]struct{}{}}
		base, maxOps = l.state.Load(), l.maxOps
		return nil
	})
	if err != nil {
		return 0, err
	}
	defer func() {
		// An error means the end of the term.
		_ = l.inCommitter(func() error { l.releaseReserved(); l.due.Send(); return nil })
	}()

	g := newGroup(base, l.owned, l.corrupt)
	g.maxOps, g.admit, g.derive, g.terms = maxOps, l.admit, l.derive, map[span]struct{}{}
	verdict, err := g.add(ctx, s.plan)
	*used = g.footprint()
	switch {
	case err != nil:
		return 0, err
	case len(g.writes) == 0: // at a later revision, what it has read may be gone
		return base.newest, l.term.Trusted()
	case verdict == oversize:
		return l.commitByJournal(ctx, g)
	}
	return l.commitWhole(ctx, g, try)
}

// commitByJournal commits a plan that does not fit into one transaction.
func (l *Ledger) commitByJournal(ctx context.Context, g *group) (rev int64, err error) {
	changed := g.changes()
	if len(changed) == 0 {
		return g.base.newest, l.term.Trusted()
	}
	l.arrange(g, changed)
	l.attempts++
	attempt := fmt.Sprintf("%x-%x", l.term.Epoch(), l.attempts)
	parts, err := l.journal.encode(attempt, changed)
	if err != nil {
		return 0, err
	}
	d, err := l.write(ctx, attempt, parts)
	if err == nil {
		d.add(changed...)
		d.show(g.tree)
		if err = l.commitMark(ctx, g, d, mark{attempt, len(parts), d.at}); err == nil {
			rev, err = l.finish(d)
		}
	}
	keys := []string{l.journal.stored(attempt)}
	for _, part := range parts {
		keys = append(keys, part.Key)
	}
	if failed := l.drop(keys); failed != nil {
		l.log.WithError(failed).Info("a journal is left behind; the next leader deletes it")
	}
	return rev, err
}

// commitWhole commits a plan that fits into one transaction after all.
func (l *Ledger) commitWhole(ctx context.Context, g *group, try int) (rev int64, err error) {
	err = l.commitIfUnchanged(ctx, g, func() (err error) {
		l.merge(g)
		rev, err = l.commit(g, 1)
		switch {
		case errors.Is(err, errBehind):
			if err = l.await(); err == nil {
				err = errConflict // runs again on the state that has arrived
			}
		case l.lowerMaxOps(err):
			err = errConflict // runs again, for a journal
		case err != nil:
			l.stale = try > patientTries || l.mustReload(err)
		}
		return err
	})
	return rev, err
}

// commitIfUnchanged calls happen in the committer, unless the plan's submission was abandoned, or a key that it
// has read, searched or written has changed since it ran.
func (l *Ledger) commitIfUnchanged(ctx context.Context, g *group, happen func() error) error {
	used := g.footprint()
	return l.inCommitter(func() error {
		switch {
		case ctx.Err() != nil:
			return notStarted(ctx)
		case l.stale || l.since.affects(used, g.base, l.state.Load()):
			return errConflict
		}
		return happen()
	})
}

// arrange sorts changes into the order in which they are stored.
func (l *Ledger) arrange(g *group, changed []change) {
	if l.order == nil {
		return
	}
	places := make(map[string]int, len(changed))
	for i, c := range changed {
		before, _ := g.base.Get(record{key: c.key})
		after := c.value
		if c.delete {
			after = nil
		}
		places[c.key], changed[i].together = l.order(c.key, before.value, after)
	}
	slices.SortStableFunc(changed, func(a, b change) int { return places[a.key] - places[b.key] })
}

// partsAtOnce is how many parts of a journal are sent to the store concurrently: it flushes them to disk
// together, and serves other requests between them.
const partsAtOnce = 4

// write stores the journal of a plan up to the mark "prepared", and waits until everything that
// others wrote before the mark has arrived.
func (l *Ledger) write(ctx context.Context, attempt string, parts []objdb.KV) (*decided, error) {
	sending, sendCtx := errgroup.WithContext(ctx)
	sending.SetLimit(partsAtOnce)
	for _, part := range parts {
		sending.Go(func() error {
			_, err := l.send(sendCtx, l.term.Txn, objdb.Txn{Puts: []objdb.KV{part}}, 0)
			return err
		})
	}
	if err := sending.Wait(); err != nil {
		return nil, notCommitted(err)
	}
	prepared := objdb.Txn{
		If:   []objdb.Guard{objdb.Absent(l.journal.prepared())},
		Puts: []objdb.KV{{Key: l.journal.prepared()}},
	}
	at, err := l.send(ctx, l.term.Txn, prepared, 0)
	if err != nil {
		return nil, notCommitted(err)
	}
	if err := l.mirror.WaitChange(ctx, at); err != nil {
		return nil, notCommitted(err)
	}
	return newDecided(0, at, l.journal.stored(attempt)), nil
}

// notCommitted returns the error of a plan that can no longer be committed.
func notCommitted(err error) error {
	if !fault.Is(err, fault.Unavailable) {
		return err
	}
	return fault.New(fault.Unavailable, "%w: %w", errNotCommitted, err)
}

// commitMark commits a plan with a journal by writing the mark.
func (l *Ledger) commitMark(ctx context.Context, g *group, d *decided, m mark) error {
	return l.commitIfUnchanged(ctx, g, func() (err error) {
		if d.mark, err = l.mark(m); err == nil {
			l.accept(g, d)
		}
		return err
	})
}

// mark puts the mark "committed" and returns the revision that created it. If the outcome is unknown, the store
// is asked until it answers or the term ends. From then on a refusal proves nothing: the request with the lost
// answer may have been executed before it. A store that reports to be full may have put the mark, too, but does
// not put it later (see objdb/commit.go).
func (l *Ledger) mark(m mark) (created int64, err error) {
	value, err := json.Marshal(m)
	if err != nil {
		return 0, fault.New(fault.Internal, "journal: encode: %w", err)
	}
	// A journal is dropped by deleting "prepared", so that this transaction has no effect if it is late.
	key := l.journal.committed()
	txn := objdb.Txn{
		If:   []objdb.Guard{objdb.SameIncarnation(l.journal.prepared(), m.At), objdb.Absent(key)},
		Puts: []objdb.KV{{Key: key, Value: value}},
	}
	ctx := context.WithoutCancel(l.term.Context())
	wait := retry.NewPacer(objdb.RetryFirst, objdb.RetryMost)
	for unknown := error(nil); ; {
		created, err = l.send(ctx, l.term.Txn, txn, 1)
		full := unknown == nil && fault.Is(err, fault.Exhausted)
		switch {
		case err == nil:
			return created, nil
		case full:
			unknown = fault.New(fault.Unavailable, "commit with unknown outcome: %w", err)
		case unknown == nil && !fault.Is(err, fault.Unavailable):
			return 0, err
		case unknown == nil:
			unknown = err
		}
		there, asked := l.db.Get(ctx, key)
		for ; fault.Is(asked, fault.Unavailable) && l.term.Context().Err() == nil; there, asked = l.db.Get(ctx, key) {
			wait.Sleep(l.term.Context())
		}
		switch {
		case asked == nil && bytes.Equal(there.Value, value):
			return there.CreateRevision, nil
		case full && (asked == nil || fault.Is(asked, fault.NotFound)):
			return 0, err
		case !fault.Is(err, fault.Unavailable) || !fault.Is(asked, fault.NotFound) || l.term.Context().Err() != nil:
			return 0, unknown
		}
	}
}

// merge adds the commits of others since the plan ran to its state; they do not concern its keys.
func (l *Ledger) merge(g *group) {
	current := l.state.Load()
	for key := range l.since.keys {
		if r, ok := current.Get(record{key: key}); ok {
			g.tree.ReplaceOrInsert(r)
		} else {
			g.tree.Delete(record{key: key})
		}
	}
}

// releaseReserved permits others to change the keys that were reserved for a large plan, which does not run any more.
func (l *Ledger) releaseReserved() { l.since, l.reserved, l.alone = nil, nil, false }

// accept makes a committed plan the ledger's state: readers see all of it from now on.
func (l *Ledger) accept(g *group, d *decided) {
	l.merge(g)
	l.releaseReserved()
	l.decided, l.newest = d, max(l.newest, d.mark)
	l.publish(g.tree)
	l.due.Send()
}

// finish waits until a committed plan is stored.
func (l *Ledger) finish(d *decided) (rev int64, err error) {
	select {
	case <-d.stored:
		return d.rev, d.err
	case <-l.term.Context().Done():
		return 0, fault.New(fault.Unavailable, "committed, and left to the next leader to be finished: %w", l.term.Ended())
	}
}

// drop deletes a journal with these parts, until that succeeds or the term ends, which leaves it to the next leader.
func (l *Ledger) drop(parts []string) error {
	wait := retry.NewPacer(objdb.RetryFirst, objdb.RetryMost)
	for {
		err := l.term.Context().Err()
		if err == nil {
			err = l.dropJournal(l.term.Context(), parts)
		}
		if err == nil || !fault.Is(err, fault.Unavailable) || l.term.Context().Err() != nil {
			return err
		}
		wait.Sleep(l.term.Context())
	}
}

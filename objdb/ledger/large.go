package ledger

import (
	"context"
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

// preparer runs large plans, beside the committer. Only its own goroutine uses it.
type preparer struct {
	*shared
	order    func(key string, before, after []byte) (place int, together bool)
	attempts int // number of large plans that were given a journal
}

// run prepares large plans, one after the other, until the term ends.
func (p *preparer) run() {
	for {
		select {
		case <-p.term.Context().Done():
			return
		case <-p.large.wake:
			for _, s := range claimed(p.large.take()) {
				if p.term.Context().Err() != nil {
					s.finish(0, p.term.Ended())
					continue
				}
				p.commitLarge(s)
			}
		}
	}
}

// inCommitter runs a function in the committer, between two groups, and returns its error,
// or the error of the end of the term, after which it does not run.
func (p *preparer) inCommitter(f func(c *committer) error) error {
	done := make(chan error)
	select {
	case p.asks <- func(c *committer) { done <- f(c) }:
		return <-done
	case <-p.term.Context().Done():
		return p.term.Ended()
	}
}

// commitLarge runs one large plan to completion.
func (p *preparer) commitLarge(s *submission) {
	began := time.Now()
	var used *footprint
	for try := 1; ; {
		rev, err := p.attempt(s, try, &used)
		switch {
		case errors.Is(err, errNotCommitted) && time.Since(began) < outage && s.ctx.Err() == nil && p.term.Context().Err() == nil:
			p.log.WithError(err).Debug("running a large plan again")
			continue
		case errors.Is(err, errConflict) && try < maxTries:
			p.log.WithField("try", try).Debug("state changed by others, running a large plan again")
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
func (p *preparer) attempt(s *submission, try int, used **footprint) (rev int64, err error) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	defer context.AfterFunc(p.term.Context(), cancel)()

	var base *tree
	var maxOps int
	err = p.inCommitter(func(c *committer) error {
		if c.stale {
			if err := c.reload(ctx); err != nil {
				return err
			}
		}
		if c.alone = try == maxTries; try > politeTries {
			c.reserved = *used
		}
		c.since = &since{keys: map[string]struct{}{}}
		base, maxOps = c.state.Load(), c.maxOps
		return nil
	})
	if err != nil {
		return 0, err
	}
	defer func() {
		// An error means the end of the term.
		_ = p.inCommitter(func(c *committer) error { c.releaseReserved(); c.due.Send(); return nil })
	}()

	g := newGroup(base, p.owned, p.corrupt)
	g.maxOps, g.admit, g.derive, g.terms = maxOps, p.admit, p.derive, map[span]struct{}{}
	verdict, err := g.add(ctx, s.plan)
	*used = g.footprint()
	switch {
	case err != nil:
		return 0, err
	case len(g.writes) == 0: // at a later revision, what it has read may be gone
		return base.newest, p.term.Trusted()
	case verdict == oversize:
		return p.commitByJournal(ctx, g)
	}
	return p.commitWhole(ctx, g, try)
}

// commitByJournal commits a plan that does not fit into one transaction.
func (p *preparer) commitByJournal(ctx context.Context, g *group) (rev int64, err error) {
	changed := g.changes()
	if len(changed) == 0 {
		return g.base.newest, p.term.Trusted()
	}
	p.arrange(g, changed)
	p.attempts++
	attempt := fmt.Sprintf("%x-%x", p.term.Epoch(), p.attempts)
	parts, err := p.journal.encode(attempt, changed)
	if err != nil {
		return 0, err
	}
	d, err := p.write(ctx, attempt, parts)
	if err == nil {
		d.add(changed...)
		d.show(g.tree)
		if err = p.commitMark(ctx, g, d, mark{attempt, len(parts), d.at}); err == nil {
			rev, err = p.finish(d)
		}
	}
	keys := []string{p.journal.stored(attempt)}
	for _, part := range parts {
		keys = append(keys, part.Key)
	}
	if failed := p.drop(keys); failed != nil {
		p.log.WithError(failed).Info("a journal is left behind; the next leader deletes it")
	}
	return rev, err
}

// commitWhole commits a plan that fits into one transaction after all.
func (p *preparer) commitWhole(ctx context.Context, g *group, try int) (rev int64, err error) {
	err = p.commitIfUnchanged(ctx, g, func(c *committer) (err error) {
		c.merge(g)
		rev, err = c.commit(g, 1)
		switch {
		case errors.Is(err, errBehind):
			if err = c.await(); err == nil {
				err = errConflict // runs again on the state that has arrived
			}
		case c.lowerMaxOps(err):
			err = errConflict // runs again, for a journal
		case err != nil:
			c.stale = try > patientTries || c.mustReload(err)
		}
		return err
	})
	return rev, err
}

// commitIfUnchanged calls happen in the committer, unless the plan's submission was abandoned, or a key that it
// has read, searched or written has changed since it ran.
func (p *preparer) commitIfUnchanged(ctx context.Context, g *group, happen func(c *committer) error) error {
	used := g.footprint()
	return p.inCommitter(func(c *committer) error {
		switch {
		case ctx.Err() != nil:
			return notStarted(ctx)
		case c.stale || c.since.affects(used, g.base, c.state.Load()):
			return errConflict
		}
		return happen(c)
	})
}

// arrange sorts changes into the order in which they are stored.
func (p *preparer) arrange(g *group, changed []change) {
	if p.order == nil {
		return
	}
	places := make(map[string]int, len(changed))
	for i, c := range changed {
		before, _ := g.base.Get(record{key: c.key})
		after := c.value
		if c.delete {
			after = nil
		}
		places[c.key], changed[i].together = p.order(c.key, before.value, after)
	}
	slices.SortStableFunc(changed, func(a, b change) int { return places[a.key] - places[b.key] })
}

// partsAtOnce is how many parts of a journal are sent to the store concurrently: it flushes them to disk
// together, and serves other requests between them.
const partsAtOnce = 4

// write stores the journal of a plan up to the mark "prepared", and waits until everything that
// others wrote before the mark has arrived.
func (p *preparer) write(ctx context.Context, attempt string, parts []objdb.KV) (*decided, error) {
	sending, sendCtx := errgroup.WithContext(ctx)
	sending.SetLimit(partsAtOnce)
	for _, part := range parts {
		sending.Go(func() error {
			_, err := p.send(sendCtx, p.term.Txn, objdb.Txn{Puts: []objdb.KV{part}}, 0)
			return err
		})
	}
	if err := sending.Wait(); err != nil {
		return nil, notCommitted(err)
	}
	prepared := objdb.Txn{
		If:   []objdb.Guard{objdb.Absent(p.journal.prepared())},
		Puts: []objdb.KV{{Key: p.journal.prepared()}},
	}
	at, err := p.send(ctx, p.term.Txn, prepared, 0)
	if err != nil {
		return nil, notCommitted(err)
	}
	if err := p.mirror.WaitChange(ctx, at); err != nil {
		return nil, notCommitted(err)
	}
	return newDecided(0, at, p.journal.stored(attempt)), nil
}

// notCommitted returns the error of a plan that can no longer be committed.
func notCommitted(err error) error {
	if !fault.Is(err, fault.Unavailable) {
		return err
	}
	return fault.New(fault.Unavailable, "%w: %w", errNotCommitted, err)
}

// commitMark commits a plan with a journal by writing the mark.
func (p *preparer) commitMark(ctx context.Context, g *group, d *decided, m mark) error {
	return p.commitIfUnchanged(ctx, g, func(c *committer) (err error) {
		if d.mark, err = c.mark(m); err == nil {
			c.accept(g, d)
		}
		return err
	})
}

// finish waits until a committed plan is stored.
func (p *preparer) finish(d *decided) (rev int64, err error) {
	select {
	case <-d.stored:
		return d.rev, d.err
	case <-p.term.Context().Done():
		return 0, fault.New(fault.Unavailable, "committed, and left to the next leader to be finished: %w", p.term.Ended())
	}
}

// drop deletes a journal with these parts, until that succeeds or the term ends, which leaves it to the next leader.
func (p *preparer) drop(parts []string) error {
	wait := retry.NewPacer(objdb.RetryFirst, objdb.RetryMost)
	for {
		err := p.term.Context().Err()
		if err == nil {
			err = p.dropJournal(p.term.Context(), parts)
		}
		if err == nil || !fault.Is(err, fault.Unavailable) || p.term.Context().Err() != nil {
			return err
		}
		wait.Sleep(p.term.Context())
	}
}

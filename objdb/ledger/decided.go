package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/btree"
	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// decided is a committed large plan, on its way from the journal to its keys. Each key is put once: every
// transaction that puts records its progress in the journal, and compares that the progress is that of the one
// before it and that the mark is still that of this journal. So a late transaction has no effect, and a
// successor does not put a key again that was stored, and has been deleted since. A transaction also compares
// that no key was written after the plan, because such a write overrides it. A transaction that only deletes
// may be executed twice, and records no progress, for which a full store would have no room.
type decided struct {
	mark     int64  // revision that created the mark "committed"
	at       int64  // revision of the plan
	progress string // key of the progress: the number of stored changes
	noted    int64  // its revision; 0: nothing is stored yet

	count   int                   // of all changes
	changes []change              // not stored yet, in order
	keys    *btree.BTreeG[string] // keys of these
	stored  chan struct{}         // closed when all changes are stored; the fields below are final then
	rev     int64                 // of the last transaction
	err     error                 // the journal was deleted by someone else
}

func newDecided(mark, at int64, progress string) *decided {
	return &decided{
		mark: mark, at: at, progress: progress, keys: btree.NewG(treeDegree, func(a, b string) bool { return a < b }),
		stored: make(chan struct{}),
	}
}

func (d *decided) add(changes ...change) {
	for _, c := range changes {
		d.count++
		c.place = d.count
		d.changes = append(d.changes, c)
		d.keys.ReplaceOrInsert(c.key)
	}
}

// left returns the number of changes that are not stored yet.
func (d *decided) left() int { return len(d.changes) }

// waits reports whether a key is not stored yet.
func (d *decided) waits(key string) bool { return d != nil && d.keys.Has(key) }

// uses reports whether a plan has read or written a key whose change is not stored yet.
func (d *decided) uses(tx *Tx) bool {
	if d == nil || d.left() == 0 {
		return false
	}
	for key := range tx.touched() {
		if d.keys.Has(key) {
			return true
		}
	}
	for s := range tx.spans {
		found := false
		d.keys.AscendRange(s.from, s.end, func(string) bool { found = true; return false })
		if found {
			return true
		}
	}
	return false
}

// A transaction of a large plan is small, because other plans wait for the one being executed.
const (
	politeOps   = 250
	politeBytes = 128 << 10
)

// next returns the changes of the next transaction; maxOps is the limit of the store.
func (d *decided) next(maxOps int) []change {
	together := len(d.changes) > 0 && d.changes[0].together
	size, mostOps, mostBytes := 0, politeOps, politeBytes
	if together {
		mostOps, mostBytes = maxOps, objdb.MaxTxnBytes
	}
	mostOps = min(mostOps, maxOps-2) // one guard is for the mark, one for the progress
	for i, c := range d.changes {
		if size += c.size(); i == mostOps || i > 0 && (size > mostBytes || c.together != together) {
			return d.changes[:i]
		}
	}
	return d.changes
}

// done removes the changes up to a place: a transaction has stored them, at a revision.
func (d *decided) done(place int, rev int64) stored {
	n := 0
	for ; n < len(d.changes) && d.changes[n].place <= place; n++ {
		d.keys.Delete(d.changes[n].key)
	}
	s := stored{changes: d.changes[:n], rev: rev}
	d.changes, d.rev = d.changes[n:], max(d.rev, rev)
	d.tell()
	return s
}

// removeStored removes the changes that are stored according to the progress in the store.
func (d *decided) removeStored(note objdb.KV) error {
	place, err := strconv.Atoi(string(note.Value))
	if err != nil || place < 1 || place > d.count {
		return corruptValue(note.Key, fmt.Errorf("%q is not a place among %d changes", note.Value, d.count))
	}
	d.done(place, note.ModRevision)
	d.noted = note.ModRevision
	return nil
}

// end gives up the remaining changes.
func (d *decided) end(err error) {
	d.err, d.changes = err, nil
	d.tell()
}

// tell closes stored if nothing is left.
func (d *decided) tell() {
	if len(d.changes) > 0 {
		return
	}
	select {
	case <-d.stored:
	default:
		close(d.stored)
	}
}

// overlay applies the changes that are not stored yet to a state that
// was read from the store, and drops those that were overwritten since.
func (d *decided) overlay(t *tree) {
	d.changes = slices.DeleteFunc(slices.Clone(d.changes), func(c change) bool {
		had, _ := t.Get(record{key: c.key})
		if had.rev > d.at {
			d.keys.Delete(c.key)
			d.rev = max(d.rev, had.rev) // perhaps by a transaction of ours with a lost answer
			return true
		}
		return false
	})
	d.show(t)
	d.tell()
}

// show adds the changes that are not stored yet to a state.
func (d *decided) show(t *tree) {
	for _, c := range d.changes {
		c.put(t, d.at)
	}
	t.storing = d.at
}

// put applies a change to a state.
func (c change) put(t *tree, rev int64) {
	if c.delete {
		t.Delete(record{key: c.key})
	} else {
		t.ReplaceOrInsert(record{key: c.key, value: nonNil(c.value), rev: rev})
	}
}

// mark puts the mark "committed" and returns the revision that created it. If the outcome is unknown, the store
// is asked until it answers or the term ends. From then on a refusal proves nothing: the request with the lost
// answer may have been executed before it. A store that reports to be full may have put the mark, too, but does
// not put it later (see objdb/commit.go).
func (c *committer) mark(m mark) (created int64, err error) {
	value, err := json.Marshal(m)
	if err != nil {
		return 0, fault.New(fault.Internal, "journal: encode: %w", err)
	}
	// A journal is dropped by deleting "prepared", so that this transaction has no effect if it is late.
	key := c.journal.committed()
	txn := objdb.Txn{
		If:   []objdb.Guard{objdb.SameIncarnation(c.journal.prepared(), m.At), objdb.Absent(key)},
		Puts: []objdb.KV{{Key: key, Value: value}},
	}
	ctx := context.WithoutCancel(c.term.Context())
	wait := retry.NewPacer(objdb.RetryFirst, objdb.RetryMost)
	for unknown := error(nil); ; {
		created, err = c.send(ctx, c.term.Txn, txn, 1)
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
		there, asked := c.db.Get(ctx, key)
		for ; fault.Is(asked, fault.Unavailable) && c.term.Context().Err() == nil; there, asked = c.db.Get(ctx, key) {
			wait.Sleep(c.term.Context())
		}
		switch {
		case asked == nil && bytes.Equal(there.Value, value):
			return there.CreateRevision, nil
		case full && (asked == nil || fault.Is(asked, fault.NotFound)):
			return 0, err
		case !fault.Is(err, fault.Unavailable) || !fault.Is(asked, fault.NotFound) || c.term.Context().Err() != nil:
			return 0, unknown
		}
	}
}

// accept makes a committed plan the ledger's state: readers see all of it from now on.
func (c *committer) accept(g *group, d *decided) {
	c.merge(g)
	c.releaseReserved()
	c.decided, c.newest = d, max(c.newest, d.mark)
	c.publish(g.tree)
	c.due.Send()
}

// stored is the result of storing some changes.
type stored struct {
	changes []change
	rev     int64
	newer   []objdb.KV // keys that were written after the plan; their changes are dropped
	before  bool       // more changes were stored before, by a transaction with a lost answer
}

// storeSome stores the next changes. It can be retried after an error.
func (c *committer) storeSome(ctx context.Context, d *decided) (stored, error) {
	some := d.next(c.maxOps)
	rev, err := c.send(ctx, c.term.Txn, c.journal.transaction(d, some), 0)
	switch {
	case errors.Is(err, errConflict):
		return c.resolveConflict(ctx, d, some)
	case c.lowerMaxOps(err):
		return stored{}, nil
	case err != nil:
		return stored{}, err
	}
	if slices.ContainsFunc(some, change.puts) {
		d.noted = rev
	}
	return d.done(some[len(some)-1].place, rev), nil
}

// transaction returns the transaction that stores some changes of a plan.
func (j journal) transaction(d *decided, some []change) objdb.Txn {
	t := objdb.Txn{
		If: []objdb.Guard{objdb.SameIncarnation(j.committed(), d.mark), objdb.AtRevision(d.progress, d.noted)},
	}
	if slices.ContainsFunc(some, change.puts) {
		t.Puts = append(t.Puts, objdb.KV{Key: d.progress, Value: []byte(strconv.Itoa(some[len(some)-1].place))})
	}
	for _, c := range some {
		t.If = append(t.If, objdb.NotAfter(c.key, d.at))
		if c.delete {
			t.Deletes = append(t.Deletes, c.key)
		} else {
			t.Puts = append(t.Puts, objdb.KV{Key: c.key, Value: c.value})
		}
	}
	return t
}

// readsAtOnce is how many keys are read concurrently to find out which are stored. A new leader does that, key
// by key, for a plan that its predecessor has left.
const readsAtOnce = 32

// resolveConflict finds out why changes were not stored. Either an earlier transaction with unknown outcome was
// executed; or others have written keys after the plan, and the changes of those keys are dropped.
func (c *committer) resolveConflict(ctx context.Context, d *decided, some []change) (stored, error) {
	mark, err := c.db.Get(ctx, c.journal.committed())
	if err != nil && !fault.Is(err, fault.NotFound) {
		return stored{}, err
	}
	if mark.CreateRevision != d.mark {
		return stored{}, fault.New(fault.Conflict, "key %s: was changed by somebody else", c.journal.committed())
	}
	noted, err := c.db.Get(ctx, d.progress)
	switch {
	case err != nil && !fault.Is(err, fault.NotFound):
		return stored{}, err
	case noted.ModRevision > d.noted:
		if err := d.removeStored(noted); err != nil {
			return stored{}, fault.New(fault.Conflict, "%w", err)
		}
		return stored{before: true}, nil
	case noted.ModRevision < d.noted: // the record was deleted by another client: the next transaction writes it again
		d.noted = noted.ModRevision
		return stored{}, nil
	}
	present := make([]objdb.KV, len(some))
	reading, readCtx := errgroup.WithContext(ctx)
	reading.SetLimit(readsAtOnce)
	for i, one := range some {
		reading.Go(func() (err error) {
			if present[i], err = c.db.Get(readCtx, one.key); fault.Is(err, fault.NotFound) {
				err = nil
			}
			return err
		})
	}
	if err := reading.Wait(); err != nil {
		return stored{}, err
	}
	var s stored
	var old []change
	for i, one := range some {
		if present[i].ModRevision > d.at {
			s.newer = append(s.newer, present[i])
			d.keys.Delete(one.key)
		} else {
			old = append(old, one)
		}
	}
	d.changes = append(old, d.changes[len(some):]...)
	d.tell()
	return s, nil
}

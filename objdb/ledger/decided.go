package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/btree"
	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
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

// stored is the result of storing some changes.
type stored struct {
	changes []change
	rev     int64
	newer   []objdb.KV // keys that were written after the plan; their changes are dropped
	before  bool       // more changes were stored before, by a transaction with a lost answer
}

// storeSome stores the next changes. It can be retried after an error.
func (l *Ledger) storeSome(ctx context.Context, d *decided) (stored, error) {
	some := d.next(l.maxOps)
	rev, err := l.send(ctx, l.term.Txn, l.transaction(d, some), 0)
	switch {
	case errors.Is(err, errConflict):
		return l.resolveConflict(ctx, d, some)
	case l.lowerMaxOps(err):
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
func (l *Ledger) transaction(d *decided, some []change) objdb.Txn {
	t := objdb.Txn{
		If: []objdb.Guard{objdb.SameIncarnation(l.journal.committed(), d.mark), objdb.AtRevision(d.progress, d.noted)},
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
func (l *Ledger) resolveConflict(ctx context.Context, d *decided, some []change) (stored, error) {
	mark, err := l.db.Get(ctx, l.journal.committed())
	if err != nil && !fault.Is(err, fault.NotFound) {
		return stored{}, err
	}
	if mark.CreateRevision != d.mark {
		return stored{}, fault.New(fault.Conflict, "key %s: was changed by somebody else", l.journal.committed())
	}
	noted, err := l.db.Get(ctx, d.progress)
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
	for i, c := range some {
		reading.Go(func() (err error) {
			if present[i], err = l.db.Get(readCtx, c.key); fault.Is(err, fault.NotFound) {
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
	for i, c := range some {
		if present[i].ModRevision > d.at {
			s.newer = append(s.newer, present[i])
			d.keys.Delete(c.key)
		} else {
			old = append(old, c)
		}
	}
	d.changes = append(old, d.changes[len(some):]...)
	d.tell()
	return s, nil
}

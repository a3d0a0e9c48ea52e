package ledger

import (
	"bytes"
	"context"
	"math"

	"github.com/contiv/netplugin/objdb"
)

// Tx is the argument of a plan: a Reader that sees the plan's own writes and those of the plans before it.
// Nothing reaches the store before the commit. It is valid only while the plan runs.
type Tx struct {
	ctx   context.Context
	group *group
	reads map[string]struct{} // keys read
	spans map[span]struct{}   // ranges read
	wrote map[string]int      // keys written and the place of the last write to each
	undo  []undo
	fail  error // misuse, which fails the plan
	early bool  // it has asked for a tag that is unknown until a large plan is stored

	decoded decodings // of ReadShared
}

// pendingRevision stands for the revision of a commit that is being assembled.
const pendingRevision = math.MaxInt64

// span is a range of keys, end excluded.
type span struct{ from, end string }

// undo is the state that a write replaced.
type undo struct {
	key   string
	had   record
	held  bool
	place int // of the previous write to the same key; 0: none
}

func newTx(ctx context.Context, g *group) *Tx {
	tx := &Tx{ctx: ctx, group: g, reads: map[string]struct{}{}, spans: map[span]struct{}{}, wrote: map[string]int{}, decoded: g.decoded}
	if tx.decoded == nil {
		tx.decoded = ofPlan{}
	}
	return tx
}

// Context ends when the caller of the plan has given up. A plan that
// takes long checks it from time to time and returns its error.
func (tx *Tx) Context() context.Context { return tx.ctx }

// Get implements Reader.
func (tx *Tx) Get(key string) ([]byte, bool) {
	if !tx.owns(key) {
		return nil, false
	}
	tx.reads[key] = struct{}{}
	r, ok := tx.group.tree.Get(record{key: key})
	return r.value, ok
}

// Revision implements Reader. For a key that an earlier plan of the same group has written, whose revision is
// unknown yet, it is one that no key has.
func (tx *Tx) Revision(key string) int64 {
	if !tx.owns(key) {
		return 0
	}
	tx.reads[key] = struct{}{}
	if _, pending := tx.group.writes[key]; pending {
		return pendingRevision
	}
	r, _ := tx.group.base.Get(record{key: key})
	return r.rev
}

// Tag implements Reader.
func (tx *Tx) Tag(key string) (int64, error) {
	tag, err := tx.group.base.stableRevision(key, tx.Revision(key))
	tx.early = tx.early || err != nil
	return tag, err
}

// Snapshot implements Reader, for the state before the plans of this group.
func (tx *Tx) Snapshot(prefix string) int64 {
	if !tx.owns(prefix) {
		return 0
	}
	return tx.group.base.seen
}

// Newest implements Reader.
func (tx *Tx) Newest() int64 { return tx.group.base.newest }

// Range implements Reader. The visit may write; it continues with the keys from the start.
//
// The guard of a range is a compare, for which the store iterates over the range: a plan that runs often should
// not visit thousands of keys. It detects keys that others changed or added, not those that they removed.
func (tx *Tx) Range(prefix string, visit func(key string, value []byte) bool) {
	if !tx.owns(prefix) {
		return
	}
	seen := span{prefix, objdb.PrefixEnd(prefix)}
	ascend(tx.group.tree.Clone(), prefix, func(r record) bool {
		if !visit(r.key, r.value) {
			seen.end = r.key + "\x00"
			return false
		}
		return true
	})
	tx.spans[seen] = struct{}{}
}

// Put stores a value; putting what is there already changes nothing. The
// value belongs to the ledger from here on. Plans too large for one
// transaction are committed in the order of their puts and deletes.
func (tx *Tx) Put(key string, value []byte) {
	if !tx.owns(key) {
		return
	}
	had, held := tx.group.tree.Get(record{key: key})
	if held && bytes.Equal(had.value, value) {
		tx.reads[key] = struct{}{} // the plan relies on it
		return
	}
	tx.group.tree.ReplaceOrInsert(record{key: key, value: nonNil(value), rev: had.rev})
	tx.replaced(key, had, held)
}

// Rewrite stores the value of a key once more, unchanged; an absent key is ignored. It is for values that are
// to be stored in another form (objdb.Values).
func (tx *Tx) Rewrite(key string) {
	if !tx.owns(key) {
		return
	}
	had, held := tx.group.tree.Get(record{key: key})
	if !held {
		tx.reads[key] = struct{}{}
		return
	}
	tx.group.rewrites[key] = struct{}{}
	tx.replaced(key, had, held)
}

// Delete removes a key; an absent one is ignored.
func (tx *Tx) Delete(key string) {
	if !tx.owns(key) {
		return
	}
	had, held := tx.group.tree.Delete(record{key: key})
	if !held {
		tx.reads[key] = struct{}{}
		return
	}
	tx.replaced(key, had, held)
}

// owns refuses keys and prefixes outside the ledger, whose state it does not know.
func (tx *Tx) owns(key string) bool {
	if !tx.group.owned.contain(key) {
		tx.fail = notOwned(key)
		return false
	}
	return true
}

// replaced records a write: the key, and the state that it replaced.
func (tx *Tx) replaced(key string, had record, held bool) {
	tx.undo = append(tx.undo, undo{key, had, held, tx.wrote[key]})
	tx.wrote[key] = len(tx.undo)
}

// Changes yields the keys that the plan has written so far, in the order of their first write, with their
// values before the plan and now; nil for none. The plan must not write meanwhile.
func (tx *Tx) Changes(yield func(key string, before, now []byte) bool) {
	for _, u := range tx.undo {
		if u.place != 0 {
			continue // a later write
		}
		now, _ := tx.group.tree.Get(record{key: u.key})
		if !yield(u.key, u.had.value, now.value) {
			return
		}
	}
}

// Try runs a part of a plan, and undoes its writes if it fails.
func (tx *Tx) Try(part func() error) error {
	begun := len(tx.undo)
	err := part()
	if err != nil {
		tx.rollback(begun)
	}
	return err
}

// rollback undoes the plan's writes from one on, in reverse order.
func (tx *Tx) rollback(from int) {
	for i := len(tx.undo) - 1; i >= from; i-- {
		u := tx.undo[i]
		if u.held {
			tx.group.tree.ReplaceOrInsert(u.had)
		} else {
			tx.group.tree.Delete(record{key: u.key})
		}
		if tx.wrote[u.key] = u.place; u.place == 0 {
			delete(tx.wrote, u.key)
		}
	}
	tx.undo = tx.undo[:from]
}

func (tx *Tx) decodings() decodings { return tx.decoded }

func (tx *Tx) reportCorrupt(key string, err error) {
	r, _ := tx.group.tree.Get(record{key: key})
	tx.group.corrupt.report(key, r.rev, err)
}

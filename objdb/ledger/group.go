package ledger

import (
	"bytes"
	"context"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

// group is a set of plans that are committed together.
type group struct {
	base     *tree // committed state
	tree     *tree // base with the writes of the plans so far
	owned    prefixes
	corrupt  *corruption
	maxOps   int
	admit    func() error    // refuses plans that add keys; nil: none
	derive   func(*Tx) error // is part of each plan that writes; nil: none
	noRoom   error           // error of plans that put, as the store is full; nil: it may have room
	waits    *decided        // large plan being stored; nil: none
	decoded  decodings       // for ReadShared; nil: each plan has its own
	reserved *footprint      // what a running large plan has used; nil: no restriction

	keys     map[string]struct{} // read or written
	spans    map[span]struct{}   // ranges read
	terms    map[span]struct{}   // ranges of terms searched; nil: nothing is written while the plans run
	writes   map[string]int      // key -> place of its last write
	rewrites map[string]struct{} // of these, keys to be stored again although unchanged
	places   int
	bytes    int
}

func newGroup(base *tree, owned prefixes, corrupt *corruption) *group {
	return &group{
		base: base, tree: base.Clone(), owned: owned, corrupt: corrupt, maxOps: objdb.FewOps,
		keys: map[string]struct{}{}, spans: map[span]struct{}{}, writes: map[string]int{}, rewrites: map[string]struct{}{},
	}
}

// verdict is the result of a plan in a group.
type verdict int

const (
	taken    verdict = iota
	full             // it does not fit with the others; nothing has changed
	oversize         // it is accepted, but does not fit into a transaction
	blocked          // it has to wait for a large plan; nothing has changed
)

// add runs a plan on top of those before it, and keeps its writes if it succeeds.
func (g *group) add(ctx context.Context, plan func(*Tx) error) (verdict, error) {
	tx := newTx(ctx, g)
	before := g.tree.Len()
	err := tx.run(plan)
	if err == nil && g.derive != nil && len(tx.wrote) > 0 {
		err = tx.run(g.derive)
	}
	if err == nil && g.admit != nil && g.tree.Len() > before {
		err = g.admit()
	}
	if err == nil && g.noRoom != nil && tx.puts() {
		err = g.noRoom
	}
	switch {
	case g.waits != nil && tx.early:
		tx.rollback(0)
		return blocked, nil
	case err != nil:
		tx.rollback(0)
		return taken, err
	case len(tx.wrote) == 0: // needs no guard: it saw a state between two plans
		return taken, nil
	case g.waits.uses(tx) || g.reserved.changedBy(tx):
		tx.rollback(0)
		return blocked, nil
	case len(g.writes) > 0 && !g.fits(tx):
		tx.rollback(0)
		return full, nil
	case len(g.writes) == 0 && tx.isLarge():
		g.take(tx)
		return oversize, nil
	}
	g.take(tx)
	return taken, nil
}

// isLarge reports whether a plan does not fit into a transaction. A single value is never large: if the store
// refuses it, no journal would help.
func (tx *Tx) isLarge() bool {
	return len(tx.touched())+len(tx.spans) > tx.group.maxOps || tx.size() > objdb.MaxTxnBytes && len(tx.wrote) > 1
}

// puts reports whether the plan makes the group put a key.
func (tx *Tx) puts() bool {
	for key := range tx.wrote {
		before, had := tx.group.base.Get(record{key: key})
		_, again := tx.group.rewrites[key]
		if after, has := tx.group.tree.Get(record{key: key}); has && (again || !had || !bytes.Equal(before.value, after.value)) {
			return true
		}
	}
	return false
}

// run calls the plan; a panic in it is an error of this plan only.
func (tx *Tx) run(plan func(*Tx) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			tx.group.corrupt.log.WithField("stack", string(debug.Stack())).Errorf("plan panicked: %v", cause)
			err = fault.New(fault.Internal, "plan failed: %v", cause)
		}
	}()
	err = plan(tx)
	if tx.fail != nil {
		return tx.fail // the plan's other result is meaningless
	}
	return err
}

// fits reports whether the group with this plan stays within the limits.
func (g *group) fits(tx *Tx) bool {
	return g.compares(tx) <= g.maxOps && g.bytes+tx.size() <= objdb.MaxTxnBytes
}

// touched returns the keys that the plan has read or written.
func (tx *Tx) touched() map[string]struct{} {
	keys := maps.Clone(tx.reads)
	for key := range tx.wrote {
		keys[key] = struct{}{}
	}
	return keys
}

// size returns an upper bound of the plan's size in a transaction.
func (tx *Tx) size() int {
	size := 0
	for key := range tx.wrote {
		r, _ := tx.group.tree.Get(record{key: key})
		size += change{key: key, value: r.value}.size()
	}
	for key := range tx.reads {
		if _, wrote := tx.wrote[key]; !wrote { // otherwise its guard is counted with the change
			size += len(key) + compareSize
		}
	}
	for s := range tx.spans {
		size += len(s.from) + len(s.end) + compareSize
	}
	return size
}

// compareSize is an upper bound of the size of a compare without its key.
const compareSize = 32

// take adds a plan's reads and writes to the group.
func (g *group) take(tx *Tx) {
	g.bytes += tx.size()
	maps.Copy(g.keys, tx.touched())
	maps.Copy(g.spans, tx.spans)
	for key, place := range tx.wrote {
		g.writes[key] = g.places + place
	}
	g.places += len(tx.undo)
}

// searched records a range of terms that a plan has searched.
func (g *group) searched(terms span) {
	if g.terms != nil {
		g.terms[terms] = struct{}{}
	}
}

// changes returns the group's net changes, in the order of the last write of each key.
func (g *group) changes() []change {
	keys := slices.SortedFunc(maps.Keys(g.writes), func(x, y string) int { return g.writes[x] - g.writes[y] })
	list := make([]change, 0, len(keys))
	for _, key := range keys {
		before, had := g.base.Get(record{key: key})
		after, has := g.tree.Get(record{key: key})
		if _, again := g.rewrites[key]; had == has && bytes.Equal(before.value, after.value) && !again {
			if had {
				g.tree.ReplaceOrInsert(before) // restored with its revision
			}
			continue
		}
		list = append(list, change{key: key, value: after.value, delete: !has, base: before.rev})
	}
	return list
}

// txn returns the transaction of a group, to be sent with the fence.
func (g *group) txn() (t objdb.Txn, err error) {
	changed := g.changes()
	if len(changed) == 0 {
		return t, nil
	}
	t.If = g.guards(changed)
	if len(t.If)+len(changed) > g.maxOps {
		return t, errBehind
	}
	for _, c := range changed {
		t.If = append(t.If, objdb.AtRevision(c.key, c.base))
		if c.delete {
			t.Deletes = append(t.Deletes, c.key)
		} else {
			t.Puts = append(t.Puts, objdb.KV{Key: c.key, Value: c.value})
		}
	}
	return t, nil
}

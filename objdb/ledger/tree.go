package ledger

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/google/btree"

	"github.com/contiv/netplugin/objdb"
)

// record is one key in a ledger's cache. A record written by a plan keeps the
// revision of what it replaces until the commit gives it a new one.
type record struct {
	key   string
	value []byte
	rev   int64
	terms []string // index terms of the value
}

// tree is an ordered map with cheap copies: a clone shares all nodes, and nodes are copied when they are
// changed later. So readers can keep a state while the committer builds the next one. The index entries are
// stored next to the records and change with them.
type tree struct {
	cloning sync.Mutex // clones of one tree are made one at a time
	records *btree.BTreeG[record]
	entries *btree.BTreeG[entry]
	blocks  *btree.BTreeG[block] // for terms that are numbers
	counts  *btree.BTreeG[count] // for counted terms
	indexes []Index
	storing int64 // revision of a large plan being stored: keys that it has put have this revision here, but not in the store yet; 0: none
	horizon
}

// horizon is how much of the store a state includes.
type horizon struct {
	// seen is the revision up to which the state has every write below an owned prefix, of any writer. This
	// ledger's commits are in the state before their revision is seen: others may have written just before.
	seen   int64
	newest int64 // a revision that the store is known to have reached
}

const treeDegree = 32

func newTree(indexes []Index) *tree {
	return &tree{
		records: btree.NewG(treeDegree, func(a, b record) bool { return a.key < b.key }),
		entries: btree.NewG(treeDegree, entry.less),
		blocks:  btree.NewG(treeDegree, block.less),
		counts:  btree.NewG(treeDegree, count.less),
		indexes: indexes,
	}
}

func buildTree(kvs []objdb.KV, indexes ...Index) *tree {
	t := newTree(indexes)
	for _, kv := range kvs {
		t.ReplaceOrInsert(record{key: kv.Key, value: kv.Value, rev: kv.ModRevision})
	}
	return t
}

// Clone returns a copy that can be changed; t must not be changed any more.
func (t *tree) Clone() *tree {
	t.cloning.Lock()
	defer t.cloning.Unlock()
	return &tree{records: t.records.Clone(), entries: t.entries.Clone(), blocks: t.blocks.Clone(), counts: t.counts.Clone(),
		indexes: t.indexes, storing: t.storing, horizon: t.horizon}
}

// Len returns the number of records.
func (t *tree) Len() int { return t.records.Len() }

// Get finds the record with a key.
func (t *tree) Get(r record) (record, bool) { return t.records.Get(r) }

// ReplaceOrInsert stores a record and indexes its value.
func (t *tree) ReplaceOrInsert(r record) {
	if len(t.indexes) == 0 {
		t.records.ReplaceOrInsert(r)
		return
	}
	had, held := t.records.Get(r)
	if held && bytes.Equal(had.value, r.value) {
		r.terms = had.terms
	} else {
		r.terms = t.termsOf(r.key, r.value)
		t.reindex(r.key, had.terms, r.terms)
	}
	t.records.ReplaceOrInsert(r)
}

// Delete removes the record with a key.
func (t *tree) Delete(r record) (had record, held bool) {
	had, held = t.records.Delete(r)
	t.reindex(r.key, had.terms, nil)
	return had, held
}

// reindex replaces the terms of a key.
func (t *tree) reindex(key string, before, after []string) {
	if slices.Equal(before, after) {
		return
	}
	for _, term := range before {
		if isCounted(term) {
			t.add(term, -1)
			continue
		}
		t.entries.Delete(entry{term, key})
		t.vacate(term)
	}
	for _, term := range after {
		if isCounted(term) {
			t.add(term, 1)
			continue
		}
		t.entries.ReplaceOrInsert(entry{term, key})
		t.occupy(term)
	}
}

// ascend visits the records below a prefix.
func ascend(t *tree, prefix string, visit func(record) bool) {
	t.records.AscendGreaterOrEqual(record{key: prefix}, func(r record) bool {
		return strings.HasPrefix(r.key, prefix) && visit(r)
	})
}

// keys returns all keys and their revisions.
func (t *tree) keys() []objdb.KV {
	kvs := make([]objdb.KV, 0, t.Len())
	t.records.Ascend(func(r record) bool {
		kvs = append(kvs, objdb.KV{Key: r.key, ModRevision: r.rev})
		return true
	})
	return kvs
}

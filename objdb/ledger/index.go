package ledger

import (
	"strings"

	"github.com/contiv/netplugin/objdb"
)

// Index finds the values below a prefix by their content.
//
// It is computed from the values when a ledger loads them and updated with every change, in memory only: it is
// not stored, so it cannot contradict the records. With it, a plan needs no record that lists others, which
// would grow with them and be written with each.
type Index struct {
	Prefix string
	// Terms returns the terms of a value; a pure function. A value that cannot be decoded has none.
	Terms func(key string, value []byte) []string
}

// entry is one term of one key.
type entry struct{ term, key string }

func (e entry) less(other entry) bool {
	if e.term != other.term {
		return e.term < other.term
	}
	return e.key < other.key
}

func (t *tree) termsOf(key string, value []byte) []string {
	var terms []string
	for i := range t.indexes {
		if strings.HasPrefix(key, t.indexes[i].Prefix) {
			terms = append(terms, t.indexes[i].Terms(key, value)...)
		}
	}
	return terms
}

// search visits the entries whose term begins with prefix, from the term from on.
func (t *tree) search(prefix, from string, visit func(term, key string) bool) {
	t.entries.AscendGreaterOrEqual(entry{term: max(prefix, from)}, func(e entry) bool {
		return strings.HasPrefix(e.term, prefix) && visit(e.term, e.key)
	})
}

// Search implements Reader.
func (v *view) Search(prefix, from string, visit func(term, key string) bool) {
	v.tree.search(prefix, from, visit)
}

// Search implements Reader. The visit may write; it continues with the entries from the start. The store knows
// no terms, so the result has no guard: a plan that relies on a found value reads it, and so gets a guard. For
// a large plan, commits of this ledger while it runs are compared with its searches.
func (tx *Tx) Search(prefix, from string, visit func(term, key string) bool) {
	seen := span{max(prefix, from), objdb.PrefixEnd(prefix)}
	tx.search(prefix, from, func(term, key string) bool {
		if !visit(term, key) {
			seen.end = term + "\x00"
			return false
		}
		return true
	})
	tx.group.searched(seen)
}

func (tx *Tx) search(prefix, from string, visit func(term, key string) bool) {
	// Most searches find little. A clone of the tree for each would make the next write copy its nodes.
	var few [4]entry
	n := 0
	tx.group.tree.search(prefix, from, func(term, key string) bool {
		if n < len(few) {
			few[n] = entry{term, key}
		}
		n++
		return n <= len(few)
	})
	if n > len(few) {
		tx.group.tree.Clone().search(prefix, from, visit)
		return
	}
	for _, e := range few[:n] {
		if !visit(e.term, e.key) {
			return
		}
	}
}

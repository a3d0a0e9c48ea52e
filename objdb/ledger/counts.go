package ledger

import "strings"

// For some terms only the number of values is needed. Counting them by iteration would make each query more
// expensive than the last, so the tree stores their number, and no entries.

// countMark is the prefix of counted terms.
const countMark = "+"

// CountedTerm is a term whose values are only counted: an Index returns it for a value to count. Search does not
// find it.
func CountedTerm(what string) string { return countMark + what }

func isCounted(term string) bool { return strings.HasPrefix(term, countMark) }

// count is the number of values under a term.
type count struct {
	term string
	n    int
}

func (c count) less(other count) bool { return c.term < other.term }

// add changes the number of values under a term.
func (t *tree) add(term string, more int) {
	c, _ := t.counts.Get(count{term: term})
	if c = (count{term, c.n + more}); c.n == 0 {
		t.counts.Delete(c)
		return
	}
	t.counts.ReplaceOrInsert(c)
}

func (t *tree) count(what string) int {
	c, _ := t.counts.Get(count{term: CountedTerm(what)})
	return c.n
}

// Count implements Reader.
func (v *view) Count(what string) int { return v.tree.count(what) }

// Count implements Reader. Like Search it has no guard, as plans see the writes of the plans before them.
func (tx *Tx) Count(what string) int {
	term := CountedTerm(what)
	tx.group.searched(span{term, term + "\x00"})
	return tx.group.tree.count(what)
}

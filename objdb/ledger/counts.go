package ledger

import "strings"

// Some terms are asked only how many values are found under them. A walk through those would make each question
// dearer than the one before, so the tree keeps their number, and no entries.

// countMark begins the terms that are counted.
const countMark = "+"

// CountedTerm is the term of something of which it is only asked how much there is: what an Index returns for a
// value that counts. Search does not find it.
func CountedTerm(what string) string { return countMark + what }

func isCounted(term string) bool { return strings.HasPrefix(term, countMark) }

// count is how many values are found under a term.
type count struct {
	term string
	n    int
}

func (c count) less(other count) bool { return c.term < other.term }

// add counts some more values under a term, or fewer.
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

// Count implements Reader. Like Search it has no guard, as plans see what those before them have written.
func (tx *Tx) Count(what string) int {
	term := CountedTerm(what)
	tx.group.searched(span{term, term + "\x00"})
	return tx.group.tree.count(what)
}

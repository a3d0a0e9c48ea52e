package ledger

import (
	"slices"
	"strings"
)

// footprint is what a large plan has read, searched and written: it
// runs again if others change any of that before it is committed.
type footprint struct {
	keys           map[string]struct{} // read or written
	read, searched ranges              // of keys, of terms
}

func (g *group) footprint() *footprint {
	return &footprint{g.keys, joined(g.spans), joined(g.terms)}
}

// has reports whether a change of a key from one state to another concerns the plan: it has used the key, or has
// searched terms that the key has in only one of the two.
func (f *footprint) has(key string, before, now *tree) bool {
	if _, ok := f.keys[key]; ok || f.read.contain(key) {
		return true
	}
	was, _ := before.Get(record{key: key})
	is, _ := now.Get(record{key: key})
	return slices.ContainsFunc(was.terms, f.searched.without(is.terms)) || slices.ContainsFunc(is.terms, f.searched.without(was.terms))
}

// changedBy reports whether another plan of a group changes a part of it; false for nil.
func (f *footprint) changedBy(tx *Tx) bool {
	if f == nil {
		return false
	}
	for key := range tx.wrote {
		if f.has(key, tx.group.base, tx.group.tree) {
			return true
		}
	}
	return false
}

// since has the changes since a large plan ran.
type since struct {
	keys map[string]struct{}
	all  bool // the cache was read again
}

func (s *since) note(key string) {
	if s != nil {
		s.keys[key] = struct{}{}
	}
}

// affects reports whether a change since a state concerns keys that a plan has used.
func (s *since) affects(used *footprint, before, now *tree) bool {
	if s.all {
		return true
	}
	for key := range s.keys {
		if used.has(key, before, now) {
			return true
		}
	}
	return false
}

// ranges are ordered spans without overlaps.
type ranges []span

func joined(spans map[span]struct{}) ranges {
	all := make(ranges, 0, len(spans))
	for s := range spans {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b span) int { return strings.Compare(a.from, b.from) })
	var joined ranges
	for _, s := range all {
		if last := len(joined) - 1; last >= 0 && s.from <= joined[last].end {
			joined[last].end = max(joined[last].end, s.end)
		} else {
			joined = append(joined, s)
		}
	}
	return joined
}

func (r ranges) contain(key string) bool {
	i, found := slices.BinarySearchFunc(r, key, func(s span, key string) int { return strings.Compare(s.from, key) })
	if found {
		return true
	}
	return i > 0 && key < r[i-1].end
}

// without returns whether a term is contained and is not one of others.
func (r ranges) without(others []string) func(term string) bool {
	return func(term string) bool { return !slices.Contains(others, term) && r.contain(term) }
}

package ledger

import (
	"errors"
	"maps"

	"github.com/contiv/netplugin/objdb"
)

// A plan may have read a state that is older than the store's, because of other writers. The guards of a
// group's transaction detect that.
//
// A key that was read or written still has its revision in the cache. In a range that was read, no key is newer
// than the seen revision, except by the ledger's own commits: those arrive by watch a moment later, and a write
// of another client with a lower revision than an own commit may still be on its way, too. So each own key that
// is newer than the seen revision is compared by itself, and the range in the pieces between them.

// errBehind means that so many own commits have not arrived by
// watch that the guards of a range do not fit into a transaction.
var errBehind = errors.New("own commits have not come back yet")

// guards returns the conditions that do not belong to a changed key.
func (g *group) guards(changed []change) (list []objdb.Guard) {
	written := make(map[string]struct{}, len(changed))
	for _, c := range changed {
		written[c.key] = struct{}{}
	}
	for key := range g.keys {
		if _, ok := written[key]; !ok {
			before, _ := g.base.Get(record{key: key})
			list = append(list, objdb.AtRevision(key, before.rev))
		}
	}
	for s := range g.spans {
		list = g.unchanged(list, s)
	}
	return list
}

// unchanged appends the guards that hold while others have added and
// changed no key in a range. Keys that they have removed are not noticed.
func (g *group) unchanged(list []objdb.Guard, s span) []objdb.Guard {
	seen, from := g.base.seen, s.from
	g.recent(s, func(r record) {
		if from != r.key {
			list = append(list, objdb.RangeNotAfter(from, r.key, seen))
		}
		list = append(list, objdb.AtRevision(r.key, r.rev))
		from = r.key + "\x00"
	})
	if from != s.end {
		list = append(list, objdb.RangeNotAfter(from, s.end, seen))
	}
	return list
}

// recent visits the keys of a range with own commits that have not arrived yet, including those that the group
// deletes: the store still has them when it compares.
func (g *group) recent(s span, visit func(record)) {
	g.base.records.AscendRange(record{key: s.from}, record{key: s.end}, func(r record) bool {
		if r.rev > g.base.seen {
			visit(r)
		}
		return true
	})
}

// compares returns the number of guards of the group together with a plan.
func (g *group) compares(tx *Tx) int {
	n := len(g.keys)
	for key := range tx.touched() {
		if _, ok := g.keys[key]; !ok {
			n++
		}
	}
	spans := maps.Clone(g.spans)
	maps.Copy(spans, tx.spans)
	for s := range spans {
		n++
		g.recent(s, func(record) { n += 2 })
	}
	return n
}

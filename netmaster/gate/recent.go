package gate

import (
	"sort"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Limits of the history.
const (
	keptChanges = 8192
	keptBytes   = 8 << 20
)

// change is one change of one record, with its scopes before and after.
type change struct {
	rev           int64
	event         *mvccpb.Event // shared by all watches
	before, after scope
	born          int64 // revision at which the former record was created
}

func (c change) size() int { return len(c.event.Kv.Key) + len(c.event.Kv.Value) + 256 }

// recent are the latest changes, kept once for all watches. The index's lock guards them.
type recent struct {
	changes  []change          // by revision
	gone     map[string]record // records that these changes deleted
	bytes    int
	floor    int64 // all later changes up to revision are here
	revision int64 // the last applied revision
	more     chan struct{}
}

func newRecent() recent { return recent{gone: make(map[string]record), more: make(chan struct{})} }

// restart drops everything: there is a gap, or another store, before a revision.
func (r *recent) restart(rev int64) {
	r.changes, r.bytes, r.floor, r.revision = nil, 0, rev, rev
	clear(r.gone)
}

func (r *recent) add(c change) {
	r.changes = append(r.changes, c)
	r.bytes += c.size()
	if key := string(c.event.Kv.Key); c.event.Type == mvccpb.Event_DELETE {
		r.gone[key] = record{scope: c.before, rev: c.rev, born: c.born}
	} else {
		delete(r.gone, key)
	}
}

// advance ends a batch and wakes the waiting watches.
func (r *recent) advance(rev int64) {
	r.revision = max(r.revision, rev)
	r.trim()
	r.wake()
}

// wake closes more; the caller holds the lock.
func (r *recent) wake() {
	close(r.more)
	r.more = make(chan struct{})
}

// trim drops the oldest revisions, about a quarter at a time, when the limits are exceeded.
func (r *recent) trim() {
	if len(r.changes) <= keptChanges && r.bytes <= keptBytes {
		return
	}
	forget := 0
	for forget < len(r.changes) && (len(r.changes)-forget > keptChanges*3/4 || r.bytes > keptBytes*3/4) {
		r.floor = r.changes[forget].rev
		for forget < len(r.changes) && r.changes[forget].rev == r.floor {
			c := r.changes[forget]
			r.bytes -= c.size()
			if key := string(c.event.Kv.Key); r.gone[key].rev == c.rev {
				delete(r.gone, key)
			}
			forget++
		}
	}
	r.changes = append([]change(nil), r.changes[forget:]...)
}

// from returns the changes from a revision on, which must be above the floor.
func (r *recent) from(rev int64) []change {
	first := sort.Search(len(r.changes), func(i int) bool { return r.changes[i].rev >= rev })
	return r.changes[first:]
}

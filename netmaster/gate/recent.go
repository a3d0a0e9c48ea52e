package gate

import (
	"sort"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// What is kept of the past.
const (
	keptChanges = 8192
	keptBytes   = 8 << 20
)

// change is one change of one record, and whose that was before and is after.
type change struct {
	rev           int64
	event         *mvccpb.Event // shared by all who are told
	before, after scope
	born          int64 // at which the record of before was made
}

func (c change) size() int { return len(c.event.Kv.Key) + len(c.event.Kv.Value) + 256 }

// recent are the last changes, kept once for all watches. The lock is that of the index.
type recent struct {
	changes  []change          // by revision
	gone     map[string]record // what was deleted by them
	bytes    int
	floor    int64 // all changes after this revision are here
	revision int64 // up to this one
	more     chan struct{}
}

func newRecent() recent { return recent{gone: make(map[string]record), more: make(chan struct{})} }

// restart forgets everything: there is a gap, or another store, before a revision.
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

// advance ends a batch and wakes those who wait for more.
func (r *recent) advance(rev int64) {
	r.revision = max(r.revision, rev)
	r.trim()
	r.wake()
}

// wake closes more; the lock is held.
func (r *recent) wake() {
	close(r.more)
	r.more = make(chan struct{})
}

// trim forgets the oldest revisions when there are too many, a good part at a time.
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

// from are the changes from a revision on, which must be above the floor.
func (r *recent) from(rev int64) []change {
	first := sort.Search(len(r.changes), func(i int) bool { return r.changes[i].rev >= rev })
	return r.changes[first:]
}

package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/test/testkit"
)

// Key prefixes in the store, from the specification of the key space.
const (
	root           = "/contiv.io/"
	statePrefix    = root + "state/"
	operPrefix     = root + "oper/"
	modelPrefix    = root + "obj/modeldb/"
	networkPrefix  = statePrefix + "nets/"
	groupPrefix    = statePrefix + "endpointGroups/"
	endpointPrefix = statePrefix + "eps/"
	servicePrefix  = statePrefix + "serviceLB/"
	heldPrefix     = operPrefix + "addresses/"
	counterPrefix  = operPrefix + "ipv6/"
	journalPrefix  = root + "journal/" // then <lock>/, parts and the mark
	markSuffix     = "/committed"
	lastKey        = root + "end-of-history"
)

// Change is one change of a key.
type Change struct {
	Revision int64
	Key      string
	Value    []byte // nil: deleted
}

// Version is the value of a key between two revisions.
type Version struct {
	From, To int64 // To is beyond all revisions for the last one
	Value    []byte
}

const forever = int64(1) << 62

// Log has every change of the store, in order.
type Log struct {
	Changes  []Change
	versions map[string][]Version
	spans    []span
	Gaps     []string // revisions that the watch omitted at first, or that cannot be recovered
}

// span are the revisions from the mark that commits a large change to the end of its journal: they count as one
// change, at the last of them.
type span struct{ from, to int64 }

// Recorder watches the store from its first revision on.
type Recorder struct {
	store   *clientv3.Client
	changes []Change
	gaps    []string
	err     error
	done    sync.WaitGroup
	stop    context.CancelFunc
}

// Record begins to watch the store.
func Record(ctx context.Context, store *clientv3.Client) *Recorder {
	ctx, stop := context.WithCancel(ctx)
	r := &Recorder{store: store, stop: stop}
	r.done.Go(func() { r.err = r.follow(ctx) })
	return r
}

// follow watches until the mark of the end. A member that stops ends its watches; they continue at another member
// after the last received revision. It watches all keys, so that every revision has an event: missing revisions
// are requested again, once.
func (r *Recorder) follow(ctx context.Context) error {
	next, asked := firstRevision, int64(0)
	for ctx.Err() == nil {
		watching, stop := context.WithCancel(ctx)
		for resp := range r.store.Watch(watching, "", clientv3.WithPrefix(), clientv3.WithRev(next)) {
			if resp.CompactRevision != 0 {
				stop()
				return fmt.Errorf("following the store from revision %d: %w", next, rpctypes.ErrCompacted)
			}
			if missing := leftOut(next, resp.Events); missing != 0 {
				gap := fmt.Sprintf("the watch of the store left out revision %d, at member %x", missing, resp.Header.MemberId)
				if asked == missing {
					stop()
					return fmt.Errorf("following the store: %s twice", gap)
				}
				r.gaps, asked = append(r.gaps, gap), missing
				break // and start again at next
			}
			if r.take(resp.Events) {
				stop()
				return nil
			}
			if n := len(resp.Events); n > 0 {
				next = resp.Events[n-1].Kv.ModRevision + 1
			}
		}
		stop()
	}
	return fmt.Errorf("following the store: %w", ctx.Err())
}

// firstRevision is the revision of the first write to a store.
const firstRevision = int64(2)

// leftOut returns the first missing revision before these events, 0 if none is missing.
func leftOut(next int64, events []*clientv3.Event) int64 {
	for _, event := range events {
		if event.Kv.ModRevision > next {
			return next
		}
		next = event.Kv.ModRevision + 1
	}
	return 0
}

// take records events; it reports whether the mark of the end is among them.
func (r *Recorder) take(events []*clientv3.Event) (ended bool) {
	for _, event := range events {
		key := string(event.Kv.Key)
		if key == lastKey {
			return true
		}
		if !strings.HasPrefix(key, root) || strings.HasPrefix(key, root+"lock/") || strings.HasPrefix(key, root+"service/") {
			continue
		}
		change := Change{Revision: event.Kv.ModRevision, Key: key}
		if event.Type == clientv3.EventTypePut {
			change.Value = event.Kv.Value
		}
		r.changes = append(r.changes, change)
	}
	return false
}

// Finish marks the end of the history and returns it once all of it has been received. A watch that continued at
// another member may have omitted a part of a revision, so all of it is read once more from the store, which is
// now idle; if the beginning was compacted, that is one of the gaps.
func (r *Recorder) Finish(ctx context.Context) (*Log, error) {
	defer r.stop()
	if err := r.end(ctx); err != nil {
		return nil, err
	}
	r.done.Wait()
	if r.err != nil {
		return nil, r.err
	}
	whole := Record(ctx, r.store)
	defer whole.stop()
	whole.done.Wait()
	if errors.Is(whole.err, rpctypes.ErrCompacted) {
		log := newLog(r.changes)
		log.Gaps = append(r.gaps, "the store has forgotten its beginning: the record is that of its watch alone")
		return log, nil
	}
	if whole.err != nil {
		return nil, whole.err
	}
	log := newLog(whole.changes)
	log.Gaps = append(r.gaps, untold(r.changes, whole.changes)...)
	return log, nil
}

// untold returns the changes of all that the watch did not report.
func untold(heard, all []Change) (gaps []string) {
	for _, c := range all {
		if len(heard) > 0 && heard[0].Revision == c.Revision && heard[0].Key == c.Key {
			heard = heard[1:]
			continue
		}
		gaps = append(gaps, fmt.Sprintf("the watch of the store did not tell of %s at revision %d", c.Key, c.Revision))
	}
	for _, c := range heard {
		gaps = append(gaps, fmt.Sprintf("the watch of the store told of %s at revision %d, which it does not have", c.Key, c.Revision))
	}
	return gaps
}

// end marks the end of the history. It must not be in the middle of a large change: one whose response was lost
// may still be in progress.
func (r *Recorder) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	noJournal := clientv3.Compare(clientv3.CreateRevision(journalPrefix), "=", 0).WithPrefix()
	return testkit.Poll(ctx, func() error {
		asking, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		resp, err := r.store.Txn(asking).If(noJournal).Then(clientv3.OpPut(lastKey, "end")).Commit()
		if err == nil && !resp.Succeeded {
			err = errors.New("a large change is not complete")
		}
		return err
	})
}

// newLog sorts changes by key. Writing the same value again is not a change.
func newLog(changes []Change) *Log {
	l := &Log{versions: map[string][]Version{}}
	for _, c := range changes {
		if strings.HasPrefix(c.Key, journalPrefix) {
			l.journal(c)
			continue
		}
		versions := l.versions[c.Key]
		if n := len(versions); n > 0 && versions[n-1].To == forever {
			if c.Value != nil && bytes.Equal(versions[n-1].Value, c.Value) {
				continue
			}
			versions[n-1].To = c.Revision
		}
		if c.Value != nil {
			versions = append(versions, Version{From: c.Revision, To: forever, Value: c.Value})
		}
		l.versions[c.Key] = versions
		l.Changes = append(l.Changes, c)
	}
	return l
}

// journal processes the mark of a journal.
func (l *Log) journal(c Change) {
	if !strings.HasSuffix(c.Key, markSuffix) {
		return
	}
	if c.Value != nil {
		l.spans = append(l.spans, span{c.Revision, forever})
	} else if n := len(l.spans); n > 0 && l.spans[n-1].to == forever {
		l.spans[n-1].to = c.Revision
	}
}

// settled returns the revision at which a change that belongs to a larger one counts.
func (l *Log) settled(revision int64) int64 {
	for _, s := range l.spans {
		if s.from <= revision && revision <= s.to {
			return s.to
		}
	}
	return revision
}

// before returns the last revision before the change that a revision belongs to.
func (l *Log) before(revision int64) int64 {
	for _, s := range l.spans {
		if s.from <= revision && revision <= s.to {
			return s.from - 1
		}
	}
	return revision - 1
}

// Alive returns the versions of a key that existed at some revision of a window.
func (l *Log) Alive(key string, from, to int64) []Version {
	versions := l.versions[key]
	first := sort.Search(len(versions), func(i int) bool { return versions[i].To > from })
	last := sort.Search(len(versions), func(i int) bool { return versions[i].From > to })
	if first >= last {
		return nil
	}
	return versions[first:last]
}

// Away reports whether a key did not exist at some revision of a window.
func (l *Log) Away(key string, from, to int64) bool {
	at := from
	for _, v := range l.Alive(key, from, to) {
		if v.From > at {
			return true
		}
		at = v.To
	}
	return at <= to
}

// At returns the value of a key at a revision, nil if it did not exist.
func (l *Log) At(key string, revision int64) []byte {
	for _, v := range l.Alive(key, revision, revision) {
		return v.Value
	}
	return nil
}

// Keys returns all keys below a prefix that ever existed, sorted.
func (l *Log) Keys(prefix string) []string {
	var keys []string
	for key := range l.versions {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	return keys
}

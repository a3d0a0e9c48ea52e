package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// Change is one change of one key, as a Feed returns it.
type Change struct {
	Key      string
	Value    []byte // nil: deleted
	Prev     []byte // value before; nil: there was none, or it is compacted
	Created  bool   // the key did not exist before
	Revision int64
}

// Limits of what a Feed keeps, and how far back it reads when it begins.
const (
	feedChanges = 20000
	feedBytes   = 32 << 20
	feedBacklog = 10000 // revisions
)

// Limits of what After returns at once (but at least one revision): a slow reader may hold it for long.
const (
	pieceChanges = 256
	pieceBytes   = 256 << 10
)

// Feed keeps the recent changes below a prefix, once for any number of readers.
//
// The only state of a reader is a revision: it calls After for the changes after it, and waits for the channel if there
// are none. A slow reader holds one piece of changes, so it costs little; if it
// falls behind the oldest change that is kept, it has to start over. A feed begins with the changes that the store
// has not compacted, so that readers of an earlier leader can continue. If the store is restored to an older
// revision, or replaced, the feed restarts with the state at
// which it noticed that.
type Feed struct {
	db     *objdb.DB
	prefix string
	log    *logrus.Entry

	// Used by Run only.
	verified verified
	keys     int64 // number of keys below the prefix at revision verified.rev, or unknown

	mu       sync.Mutex
	history  int      // history of the store (objdb.Standing) to which the following fields belong
	changes  []Change // by revision
	bytes    int
	begun    bool
	floor    int64         // changes has all changes after this revision
	revision int64         // up to this revision
	present  int64         // revision of the store when the feed began
	more     chan struct{} // closed and replaced when revision or floor changes
}

// NewFeed makes a feed of a prefix, which must end in a slash. Run fills it.
func NewFeed(db *objdb.DB, prefix string) *Feed {
	return &Feed{db: db, prefix: prefix, log: db.Log().WithField("feed", prefix), more: make(chan struct{})}
}

// Run fills the feed until ctx ends and returns its error.
func (f *Feed) Run(ctx context.Context) error {
	if err := objdb.CheckPrefix(f.prefix); err != nil {
		return err
	}
	wait := retry.NewPacer(objdb.RetryFirst, objdb.RetryMost)
	for ctx.Err() == nil {
		standing := f.db.Standing()
		if !standing.Certain {
			select {
			case <-standing.Changed:
			case <-ctx.Done():
			}
			continue
		}
		err := f.begin(ctx, standing.History)
		if err == nil {
			err = f.watch(ctx, standing, wait.Reset)
		}
		if ctx.Err() == nil && !errors.Is(err, errUncertain) {
			f.log.WithError(err).Debug("interrupted, trying again")
			wait.Sleep(ctx)
		}
	}
	return ctx.Err()
}

// begin sets the revision at which the watch begins. If the store has compacted
// it, the watch returns the compaction revision (skip).
func (f *Feed) begin(ctx context.Context, history int) error {
	f.mu.Lock()
	begun := f.begun && f.history == history
	f.mu.Unlock()
	if begun {
		return nil
	}
	present, err := f.count(ctx, 0)
	if err != nil {
		return err
	}
	standing := f.db.Standing()
	if standing.History != history {
		return errUncertain
	}
	floor := max(1, standing.Since, present.Header.Revision-feedBacklog)
	f.verified, f.keys = verified{rev: floor}, unknown
	there, err := f.count(ctx, floor)
	switch {
	case err == nil:
		f.keys = there.Count
	case !errors.Is(err, rpctypes.ErrCompacted):
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes, f.bytes = nil, 0
	f.history, f.floor, f.revision, f.begun = history, floor, floor, err == nil
	f.present = present.Header.Revision
	f.advanced()
	return nil
}

// count reads the number of keys at a revision; 0 is the present one.
func (f *Feed) count(ctx context.Context, rev int64) (*clientv3.GetResponse, error) {
	return objdb.Call(ctx, f.db, "count "+f.prefix, func(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) {
		return c.Get(ctx, f.prefix, clientv3.WithPrefix(), clientv3.WithCountOnly(), clientv3.WithRev(rev))
	})
}

// After returns a copy of the next changes after a revision, never part of a revision,
// and the revision up to which they are complete. There may be more changes after that.
// If there is none, the caller waits until channel more is closed and calls After again.
// It fails with fault.Conflict if changes after the revision are
// not kept any more.
func (f *Feed) After(rev int64) (changes []Change, upTo int64, more <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.begun || rev >= f.revision:
		return nil, rev, f.more, nil
	case rev < f.floor:
		return nil, rev, nil, fault.New(fault.Conflict, "revision %d is too old, changes are known after %d", rev, f.floor)
	}
	first := sort.Search(len(f.changes), func(i int) bool { return f.changes[i].Revision > rev })
	piece := pieceOf(f.changes[first:])
	upTo = f.revision
	if first+len(piece) < len(f.changes) {
		upTo = piece[len(piece)-1].Revision
	}
	return slices.Clone(piece), upTo, f.more, nil
}

// pieceOf returns the first changes, up to the limits of a piece.
func pieceOf(changes []Change) []Change {
	bytes, whole := 0, 0
	for i, c := range changes {
		if i > 0 && c.Revision != changes[i-1].Revision {
			whole = i
		}
		if bytes += c.size(); whole > 0 && (i >= pieceChanges || bytes > pieceBytes) {
			return changes[:whole]
		}
	}
	return changes
}

// Revision returns the revision up to which the feed has all changes; begun is false until it
// knows the revision from which on.
func (f *Feed) Revision() (rev int64, begun bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.revision, f.begun
}

// Newest returns the latest revision that the store is known to have: the feed's, or that of the store when the
// feed began, if the watch has not caught up with it.
func (f *Feed) Newest() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return max(f.revision, f.present)
}

// watch appends changes until the watch breaks, or the standing of the store
// changes (errUncertain).
func (f *Feed) watch(ctx context.Context, standing objdb.Standing, progress func()) error {
	client, err := f.db.Client(ctx)
	if err != nil {
		return err
	}
	// The context of its own cancels the watch in the store when this function returns.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	// Without WithFragment: to split a response, etcd computes the size of a fragment
	// again for each event that it adds. With many events that takes minutes, in
	// which no watch of the gRPC stream gets events.
	responses := client.Watch(ctx, f.prefix, clientv3.WithPrefix(), clientv3.WithRev(f.next()),
		clientv3.WithPrevKV(), clientv3.WithProgressNotify())
	for {
		select {
		case <-standing.Changed:
			return errUncertain
		case resp, open := <-responses:
			switch {
			case !open:
				return errors.New("watch ended")
			case resp.CompactRevision != 0:
				f.skip(resp.CompactRevision)
				return fmt.Errorf("compacted up to %d", resp.CompactRevision)
			case resp.Err() != nil:
				return resp.Err()
			case resp.IsProgressNotify():
				if err := f.verify(ctx, resp.Header.Revision); err != nil {
					f.log.WithError(err).Warn("readers have to start over")
					f.skip(resp.Header.Revision + 1)
					return err
				}
			}
			f.db.Heard(standing.History, resp.Header.GetRevision())
			f.add(resp.Events, resp.Header.Revision, resp.IsProgressNotify())
			progress()
		}
	}
}

func (f *Feed) next() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.revision + 1
}

// skip drops all changes and continues at a revision, as earlier changes are not available.
func (f *Feed) skip(rev int64) {
	f.verified.rev, f.keys = rev-1, unknown
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes, f.bytes = nil, 0
	f.floor, f.revision, f.begun = rev-1, rev-1, true
	f.advanced()
}

// add appends the events of a response at revision rev and wakes the readers.
func (f *Feed) add(events []*clientv3.Event, rev int64, progress bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun = true // the store has not compacted the floor
	for _, e := range events {
		c := Change{Key: string(e.Kv.Key), Revision: e.Kv.ModRevision, Created: e.IsCreate()}
		if e.Type != clientv3.EventTypeDelete {
			c.Value = objdb.KVOf(e.Kv).Value
		}
		if e.PrevKv != nil {
			c.Prev = objdb.KVOf(e.PrevKv).Value
		}
		f.changes = append(f.changes, c)
		f.bytes += c.size()
		f.revision = max(f.revision, c.Revision)
	}
	if progress {
		f.revision = max(f.revision, rev)
	}
	f.trim()
	f.advanced()
}

// trim drops the oldest revisions when a limit of the feed is exceeded: a
// quarter at a time, because the rest is copied.
func (f *Feed) trim() {
	if len(f.changes) <= feedChanges && f.bytes <= feedBytes {
		return
	}
	forget := 0
	for len(f.changes)-forget > feedChanges*3/4 || f.bytes > feedBytes*3/4 && forget < len(f.changes) {
		f.floor = f.changes[forget].Revision
		for forget < len(f.changes) && f.changes[forget].Revision == f.floor {
			f.bytes -= f.changes[forget].size()
			forget++
		}
	}
	f.changes = append([]Change(nil), f.changes[forget:]...) // a copy: verify may read the old slice
}

// advanced wakes the readers. The caller holds the lock.
func (f *Feed) advanced() {
	close(f.more)
	f.more = make(chan struct{})
}

func (c Change) size() int { return len(c.Key) + len(c.Value) + len(c.Prev) + 64 }

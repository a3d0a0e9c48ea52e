package mirror

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

const (
	probeEvery   = 1500 * time.Millisecond // so often the store is asked whether it is there
	probeTimeout = 2 * time.Second         // no answer for so long: not connected
	auditAfter   = 50 * time.Millisecond   // a waiter this old makes the mirror look itself
	auditEvery   = 500 * time.Millisecond
)

// Event is one change of one key.
type Event struct {
	Key         string
	Value       []byte // nil: deleted
	Prev        []byte // what the mirror had before; nil: nothing
	ModRevision int64
}

// Batch is what one revision changed, or, when Snapshot is set, everything
// that is there at a revision. A batch that closes a gap may span several
// revisions; it then brings the mirror from one state to a later one.
type Batch struct {
	Revision int64
	Snapshot bool
	Events   []Event
}

// Mirror follows one prefix. Its first batch is a snapshot; from then on each
// batch moves the receiver to a later state of the store, without gaps.
//
// A mirror keeps its own copy of keys and values. From it come the previous
// values of events, and, when the store has compacted the revisions that were
// missed, the events themselves: by comparing the copy with a new listing.
type Mirror struct {
	db      *objdb.DB
	prefix  string
	deliver func(Batch)
	log     *logrus.Entry

	held  map[string]objdb.KV // touched by Follow only
	audit chan struct{}       // asks Follow to compare with the store

	mu        sync.Mutex
	revision  int64
	advanced  chan struct{} // closed and replaced when revision grows
	connected bool
	synced    bool
}

// New prepares to follow a prefix, which must end in a slash. Batches are
// delivered one at a time, from Run.
func New(db *objdb.DB, prefix string, deliver func(Batch)) *Mirror {
	return &Mirror{
		db: db, prefix: prefix, deliver: deliver,
		log:      db.Log().WithField("prefix", prefix),
		audit:    make(chan struct{}, 1),
		advanced: make(chan struct{}),
	}
}

// Seed gives the mirror a known state, so that it starts with the watch instead of a snapshot.
func (m *Mirror) Seed(kvs []objdb.KV, rev int64) {
	m.held = make(map[string]objdb.KV, len(kvs))
	for _, kv := range kvs {
		m.held[kv.Key] = kv
	}
	m.reached(rev)
}

// Run follows the prefix until ctx ends and returns its error.
func (m *Mirror) Run(ctx context.Context) error {
	if err := objdb.CheckPrefix(m.prefix); err != nil {
		return err
	}
	probing := make(chan struct{})
	go func() {
		defer close(probing)
		m.probe(ctx)
	}()
	m.Follow(ctx)
	<-probing
	return ctx.Err()
}

// Revision is the latest revision whose state the receiver has been given.
func (m *Mirror) Revision() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision
}

// Connected tells whether the store answered lately.
func (m *Mirror) Connected() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.connected
}

// Synced tells whether the snapshot has been delivered.
func (m *Mirror) Synced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.synced
}

// WaitRevision returns when the receiver has been given the state of the prefix
// at a revision or later. The revision need not have touched the prefix.
func (m *Mirror) WaitRevision(ctx context.Context, rev int64) error {
	patience := time.NewTimer(auditAfter)
	defer patience.Stop()
	for {
		m.mu.Lock()
		have, advanced := m.revision, m.advanced
		m.mu.Unlock()
		if have >= rev {
			return nil
		}
		select {
		case <-advanced:
		case <-patience.C:
			// Nothing came: perhaps because the revision changed other keys.
			select {
			case m.audit <- struct{}{}:
			default: // already asked for
			}
			patience.Reset(auditEvery)
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "mirror of %s: revision %d not reached, have %d: %w", m.prefix, rev, have, ctx.Err())
		}
	}
}

// reached records that the receiver has the state at rev.
func (m *Mirror) reached(rev int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.synced = true
	if rev > m.revision {
		m.revision = rev
		close(m.advanced)
		m.advanced = make(chan struct{})
	}
}

// Follow keeps the receiver up to date: list once, watch from there, and list
// again whenever the store no longer has the revisions in between. Other than
// with Run, Connected says nothing.
func (m *Mirror) Follow(ctx context.Context) {
	wait := retry.NewPacer(objdb.RetryFirst, objdb.RetryMost)
	for ctx.Err() == nil {
		err := m.catchUp(ctx)
		if err == nil {
			err = m.watch(ctx, wait.Reset)
		}
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errGap) {
			m.log.WithError(err).Info("revisions were compacted, listing again")
			m.mu.Lock()
			m.synced = false
			m.mu.Unlock()
			continue
		}
		m.log.WithError(err).Debug("interrupted, trying again")
		wait.Sleep(ctx)
	}
}

// probe keeps Connected true to its word. It asks for a linearizable read, so a
// member that has lost its quorum counts as away.
func (m *Mirror) probe(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, probeTimeout)
		err := m.db.Ping(asking)
		cancel()
		if ctx.Err() != nil {
			return
		}
		m.mu.Lock()
		changed := m.connected != (err == nil)
		m.connected = err == nil
		m.mu.Unlock()
		switch {
		case changed && err == nil:
			m.log.Info("store is reachable")
		case changed:
			m.log.WithError(err).Warn("store is not reachable")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

package mirror

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/logging"
	"github.com/contiv/netplugin/utils/notify"
	"github.com/contiv/netplugin/utils/retry"
)

const (
	auditAfter = 50 * time.Millisecond // a waiter this old makes the mirror look itself
	auditEvery = 500 * time.Millisecond
)

// Event is one change of one key.
type Event struct {
	Key         string
	Value       []byte // nil: deleted
	ModRevision int64

	CreateRevision int64 // 0 of a deletion
}

// Batch is what one revision changed, or, when Snapshot is set, everything
// that is there at a revision. A batch that closes a gap may span several
// revisions; it then brings the receiver from one state to a later one. When
// the store went back or is another one, it brings the receiver to the state
// of that, and Revision may be lower than before.
type Batch struct {
	Revision int64
	Snapshot bool
	Another  bool // the store went back or is another one since the batch before
	Events   []Event
}

// Mirror follows one prefix. Its first batch is a snapshot; from then on each
// batch moves the receiver to a later state of the store, without gaps.
//
// A mirror remembers which keys the receiver has, and of which revision. From
// that come the events when the store has compacted the revisions that were
// missed: by comparison with a new listing.
type Mirror struct {
	db      *objdb.DB
	prefix  string
	wanted  func(key string) bool // nil: all keys of the prefix
	deliver func(Batch)
	log     *logrus.Entry

	// These belong to Follow.
	held      map[string]int64 // key -> revision of its last write; nil before the first listing
	newest    event            // the last one that the receiver has
	forgotten int64            // the store was found to tell nothing from before this revision
	verified  verified
	audit     notify.Signal // asks Follow to compare with the store

	mu       sync.Mutex
	history  int // of the store; the rest is true within it only
	revision int64
	advanced chan struct{} // closed and replaced when revision grows
	synced   bool

	unreadable error // see Unreadable
}

// New prepares to follow a prefix, which must end in a slash. Batches are
// delivered one at a time, from Run.
func New(db *objdb.DB, prefix string, deliver func(Batch)) *Mirror {
	return &Mirror{
		db: db, prefix: prefix, deliver: deliver,
		log:      db.Log().WithField("prefix", prefix),
		audit:    notify.New(),
		advanced: make(chan struct{}),
	}
}

// NewPart prepares to follow those keys of a prefix that are wanted. Changes of
// the others only tell how far the mirror has come.
func NewPart(db *objdb.DB, prefix string, wanted func(key string) bool, deliver func(Batch)) *Mirror {
	m := New(db, prefix, deliver)
	m.wanted = wanted
	return m
}

// Seed gives the mirror a known state, so that it starts with the watch instead of a snapshot.
func (m *Mirror) Seed(kvs []objdb.KV, rev int64) {
	m.hold(kvs)
	m.listed(m.db.Standing().History, rev)
}

// Run follows the prefix until ctx ends and returns its error.
func (m *Mirror) Run(ctx context.Context) error {
	if err := objdb.CheckPrefix(m.prefix); err != nil {
		return err
	}
	m.Follow(ctx)
	return ctx.Err()
}

// Revision is the latest revision whose state the receiver has been given.
func (m *Mirror) Revision() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision
}

// Connected tells whether the store answered lately.
func (m *Mirror) Connected() bool { return m.db.Connected() }

// Synced tells whether the snapshot has been delivered.
func (m *Mirror) Synced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.synced
}

// Unreadable tells why the store cannot be read (objdb.IsUnreadable) though it answers; nil while it can.
func (m *Mirror) Unreadable() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unreadable
}

// found records why the store cannot be read; nil: it can.
func (m *Mirror) found(unreadable error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unreadable = unreadable
}

// WaitRevision returns when the receiver has been given the state of the prefix
// at a revision or later. The revision need not have touched the prefix. It is
// one of the store as it is now: while it is not certain that this is the store
// that was followed so far, WaitRevision waits. The mirror of a part cannot tell
// by itself that nothing has changed; there it has to be WaitChange.
func (m *Mirror) WaitRevision(ctx context.Context, rev int64) error {
	return m.wait(ctx, rev, time.After(auditAfter))
}

// WaitChange is WaitRevision for a revision that has changed a key of the
// prefix, wanted or not: it arrives by itself, and the store is not asked for it.
func (m *Mirror) WaitChange(ctx context.Context, rev int64) error {
	return m.wait(ctx, rev, nil)
}

// wait waits for a revision; when patience ends, the mirror is made to look.
func (m *Mirror) wait(ctx context.Context, rev int64, patience <-chan time.Time) error {
	for {
		standing := m.db.Standing()
		m.mu.Lock()
		history, have, advanced := m.history, m.revision, m.advanced
		m.mu.Unlock()
		if standing.Certain && history == standing.History && have >= rev {
			return nil
		}
		select {
		case <-advanced:
		case <-standing.Changed:
		case <-patience:
			// Nothing came: perhaps because the revision changed other keys.
			m.audit.Send()
			patience = time.After(auditEvery)
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "mirror of %s: revision %d not reached, have %d: %w", m.prefix, rev, have, ctx.Err())
		}
	}
}

// reached records that the receiver has the state at rev.
func (m *Mirror) reached(rev int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if rev > m.revision {
		m.revision = rev
		m.tell()
	}
}

// listed records that the receiver has the state at rev of a history.
func (m *Mirror) listed(history int, rev int64) {
	m.verified.rev = rev
	m.mu.Lock()
	defer m.mu.Unlock()
	m.history, m.revision, m.synced = history, rev, true
	m.tell()
}

// tell wakes those who wait for a revision. The lock is held.
func (m *Mirror) tell() {
	close(m.advanced)
	m.advanced = make(chan struct{})
}

// Follow keeps the receiver up to date: list once, watch from there, and list
// again whenever the store no longer has the revisions in between, or is
// another one.
func (m *Mirror) Follow(ctx context.Context) {
	wait := retry.NewPacer(objdb.RetryFirst, objdb.RetryMost)
	var trouble logging.Trouble // the same is told once in a while
	for ctx.Err() == nil {
		standing := m.db.Standing()
		if !standing.Certain {
			select {
			case <-standing.Changed:
			case <-ctx.Done():
			}
			continue
		}
		err := m.catchUp(ctx, standing.History)
		if err == nil {
			err = m.confirm(ctx, standing.History)
		}
		if err == nil {
			m.found(nil)
			err = m.watch(ctx, standing, wait.Reset)
		}
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errUncertain):
		case errors.Is(err, errGap):
			m.log.WithError(err).Info("listing again")
			m.mu.Lock()
			m.synced = false
			m.mu.Unlock()
		case objdb.IsUnreadable(err):
			m.found(err)
			if trouble.IsNews(err, time.Now()) {
				m.log.WithError(err).Warn("the store cannot be read, what is known stays as it is")
			}
			wait.Sleep(ctx)
		default:
			m.log.WithError(err).Debug("interrupted, trying again")
			wait.Sleep(ctx)
		}
	}
}

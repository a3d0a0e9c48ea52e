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
	auditAfter = 50 * time.Millisecond // after this time a waiter makes the mirror read the store
	auditEvery = 500 * time.Millisecond
)

// Event is one change of one key.
type Event struct {
	Key         string
	Value       []byte // nil: deleted
	ModRevision int64

	CreateRevision int64 // 0 of a deletion
}

// Batch is the changes of one revision or, if Snapshot is set, all keys
// at a revision. After a gap in the watch, a batch may span several
// revisions. If the store was restored to an older revision, or replaced (Another),
// the batch is the difference to its state, and Revision may be lower than
// in the batch before.
type Batch struct {
	Revision int64
	Snapshot bool
	Another  bool // since the batch before, the store was restored to an older revision, or replaced
	Events   []Event
}

// Mirror follows one prefix. Its first batch is a snapshot; from then on each
// batch moves the receiver to a later state of the store, without gaps.
//
// A mirror keeps the keys that the receiver has, with their revisions. If
// the store has compacted the revisions after the last batch, the mirror lists the prefix and
// compares the listing with these keys; the difference is the next batch.
type Mirror struct {
	db      *objdb.DB
	prefix  string
	wanted  func(key string) bool // nil: all keys of the prefix
	deliver func(Batch)
	log     *logrus.Entry

	// Used by Follow only.
	held      map[string]int64 // the receiver's keys, with the revision of the last write; nil before the first listing
	newest    event            // the latest event that the receiver has
	forgotten int64            // compaction revision of the store, as far as a watch has returned one
	verified  verified
	audit     notify.Signal // makes Follow compare with the store

	mu       sync.Mutex
	history  int // history of the store (objdb.Standing) to which revision and synced belong
	revision int64
	advanced chan struct{} // closed and replaced when revision grows
	synced   bool

	unreadable error // see Unreadable
}

// New makes a mirror of a prefix, which must end in a slash. Run calls deliver,
// with one batch at a time.
func New(db *objdb.DB, prefix string, deliver func(Batch)) *Mirror {
	return &Mirror{
		db: db, prefix: prefix, deliver: deliver,
		log:      db.Log().WithField("prefix", prefix),
		audit:    notify.New(),
		advanced: make(chan struct{}),
	}
}

// NewPart makes a mirror of those keys of a prefix that are wanted. Changes of
// other keys only advance its revision.
func NewPart(db *objdb.DB, prefix string, wanted func(key string) bool, deliver func(Batch)) *Mirror {
	m := New(db, prefix, deliver)
	m.wanted = wanted
	return m
}

// Seed sets the receiver's state, so that the mirror starts with a watch instead of a snapshot.
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

// Revision returns the latest revision whose state the receiver has.
func (m *Mirror) Revision() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revision
}

// Connected reports whether the store has answered recently.
func (m *Mirror) Connected() bool { return m.db.Connected() }

// Synced reports whether the snapshot has been delivered.
func (m *Mirror) Synced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.synced
}

// Unreadable returns why the store answers but cannot be read (objdb.IsUnreadable); nil while it can.
func (m *Mirror) Unreadable() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unreadable
}

// found sets the error that Unreadable returns.
func (m *Mirror) found(unreadable error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unreadable = unreadable
}

// WaitRevision returns when the receiver has the state of the prefix
// at a revision or later. The revision need not have changed a key of the prefix. It belongs to
// the store's present history: while it is uncertain whether the mirror follows
// that one (objdb.Standing), WaitRevision waits. For a mirror of NewPart use
// WaitChange: it cannot find out that a revision changed no key.
func (m *Mirror) WaitRevision(ctx context.Context, rev int64) error {
	return m.wait(ctx, rev, time.After(auditAfter))
}

// WaitChange is WaitRevision for a revision that has changed a key of the
// prefix, wanted or not: the watch delivers it, and the store is not read.
func (m *Mirror) WaitChange(ctx context.Context, rev int64) error {
	return m.wait(ctx, rev, nil)
}

// wait waits for a revision; when patience ends, it makes the mirror compare with the store.
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
			// The revision may have changed only keys of other prefixes.
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

// tell wakes the callers that wait for a revision. The caller holds the lock.
func (m *Mirror) tell() {
	close(m.advanced)
	m.advanced = make(chan struct{})
}

// Follow keeps the receiver up to date until ctx ends: it lists once, watches from there, and lists
// again when the store has compacted revisions that the receiver lacks, was restored to an older one, or was
// replaced.
func (m *Mirror) Follow(ctx context.Context) {
	wait := retry.NewPacer(objdb.RetryFirst, objdb.RetryMost)
	var trouble logging.Trouble // a repeated error is logged at intervals
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

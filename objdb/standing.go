package objdb

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/utils/notify"
)

// Standing is what this process knows about the store at a moment.
//
// A store can be restored from a backup, wiped, or replaced by another one at the same address. Its followers
// then have a state that never existed. Every answer to a read or a transaction reveals that: it has the id of
// the cluster, and a revision that never shrinks within one history.
//
// None of this can happen while a connection stands. So after a connection is lost, nothing is certain until
// the store has answered again, and code that depends on revisions waits for that.
type Standing struct {
	History int             // number of the store's history; only revisions of one history can be compared
	Since   int64           // first known revision of this history; older ones may be of another
	Certain bool            // the store has answered since the last loss of a connection
	Changed <-chan struct{} // closed when the standing changes
}

// standing maintains a Standing.
type standing struct {
	log  *logrus.Entry
	now  func() time.Time
	look notify.Signal // wakes the goroutine that probes the store

	mu        sync.Mutex
	history   int
	since     int64
	cluster   uint64
	revision  int64 // highest revision known in this history
	losses    int   // number of lost connections
	certain   bool
	connected bool
	heard     time.Time // last answer of the store
	changed   chan struct{}
}

func newStanding(log *logrus.Entry, now func() time.Time) *standing {
	return &standing{log: log, now: now, look: notify.New(), changed: make(chan struct{})}
}

// question is the state when a request was sent.
type question struct {
	history  int
	revision int64
	losses   int
}

// ask is called before a request is sent.
func (s *standing) ask() question {
	s.mu.Lock()
	defer s.mu.Unlock()
	return question{s.history, s.revision, s.losses}
}

// answered evaluates the answer to a request.
func (s *standing) answered(q question, answer any) {
	header, least, ok := headerOf(answer)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = s.now()
	if header == nil || q.history != s.history {
		return
	}
	if s.cluster != 0 && s.cluster != header.ClusterId || header.Revision < q.revision+least {
		s.log.WithFields(logrus.Fields{
			"cluster": s.cluster, "revision": s.revision, "now-cluster": header.ClusterId, "now-revision": header.Revision,
		}).Error("the store went back or is another one: everything is read again")
		s.begin()
	}
	if s.cluster == 0 && s.history > 0 {
		s.since = header.Revision // the first revision of this history
	}
	s.cluster, s.revision = header.ClusterId, max(s.revision, header.Revision)
	if !s.certain && q.losses == s.losses {
		s.certain = true
		s.notifyChanged()
	}
	if !s.connected {
		s.connected = true
		s.log.Info("store is reachable")
	}
}

// begin starts another history. The caller holds the lock.
func (s *standing) begin() {
	s.history++
	s.cluster, s.revision, s.since = 0, 0, 0
	s.notifyChanged()
}

// notifyChanged wakes the goroutines that wait for a change of the standing. The caller holds the lock.
func (s *standing) notifyChanged() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// noteDisconnect records that a connection was lost.
func (s *standing) noteDisconnect() {
	s.mu.Lock()
	s.losses++
	if s.certain {
		s.certain = false
		s.notifyChanged()
	}
	s.mu.Unlock()
	s.probeSoon()
}

// probeSoon makes watchHealth probe the store soon.
func (s *standing) probeSoon() {
	s.look.Send()
}

// failed records that the store did not answer a probe.
func (s *standing) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.connected {
		s.connected = false
		s.log.WithError(err).Warn("store is not reachable")
	}
}

// headerOf returns the header of an answer that only a store with a quorum gives; ok is false for others. The header
// is nil if its revision is that of one member only. The revision exceeds all revisions known before by at least
// least.
func headerOf(answer any) (header *etcdserverpb.ResponseHeader, least int64, ok bool) {
	switch a := answer.(type) {
	case *clientv3.GetResponse:
		return a.Header, 0, true
	case *clientv3.PutResponse:
		return a.Header, 1, true
	case *clientv3.TxnResponse:
		for _, r := range a.Responses {
			if r.GetResponsePut() != nil || r.GetResponseDeleteRange().GetDeleted() > 0 {
				return a.Header, 1, true
			}
		}
		// A transaction that succeeds without operations is answered by one member alone; one that
		// fails was to write something.
		return a.Header, 0, !a.Succeeded || len(a.Responses) > 0
	case *clientv3.LeaseKeepAliveResponse:
		return nil, 0, true
	}
	return nil, 0, false
}

// Standing returns the present standing of the store.
func (db *DB) Standing() Standing {
	s := db.standing
	s.mu.Lock()
	defer s.mu.Unlock()
	return Standing{History: s.history, Since: s.since, Certain: s.certain, Changed: s.changed}
}

// awaitOtherHistory blocks until the store has another history than this one; it returns false when ctx ends before.
func (db *DB) awaitOtherHistory(ctx context.Context, history int) bool {
	for {
		s := db.Standing()
		if s.History != history {
			return true
		}
		select {
		case <-s.Changed:
		case <-ctx.Done():
			return false
		}
	}
}

// Connected reports whether the store has answered recently.
func (db *DB) Connected() bool {
	s := db.standing
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connected
}

// Heard records a response of a watch that began in a history: the store is alive and has reached a revision.
func (db *DB) Heard(history int, rev int64) {
	s := db.standing
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = s.now()
	if history == s.history {
		s.revision = max(s.revision, rev)
	}
}

// Refute is called when a follower has found that the store lacks what it had in a history, although
// its revision does not show that.
func (db *DB) Refute(history int) {
	s := db.standing
	s.mu.Lock()
	defer s.mu.Unlock()
	if history == s.history {
		s.log.Error("the store does not have the history it had: everything is read again")
		s.begin()
	}
}

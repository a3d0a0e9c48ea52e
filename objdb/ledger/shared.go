package ledger

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
)

// shared is what the callers of a ledger and its goroutines use together. What changes of it after Open protects
// itself: the state, what is reported and decoded, the mirror, the queues.
type shared struct {
	term     *objdb.Term
	db       *objdb.DB
	log      *logrus.Entry
	owned    prefixes
	observer Observer
	admit    func() error
	derive   func(*Tx) error
	journal  journal

	state   atomic.Pointer[tree] // committed; never changed once stored
	corrupt *corruption
	decoded ofViews
	mirror  *mirror.Mirror

	small *queue                // to the committer
	large *queue                // to the preparer
	asks  chan func(*committer) // functions to run in the committer
}

// send commits one transaction, by Txn or Commit of the term, and reports it to the observer.
func (s *shared) send(ctx context.Context, by func(context.Context, objdb.Txn) (int64, bool, error), t objdb.Txn, plans int) (int64, error) {
	began := time.Now()
	rev, err := fenced(by(ctx, t))
	s.observer.Committed(plans, len(t.Puts)+len(t.Deletes), time.Since(began), err)
	return rev, err
}

// fenced returns the result of a transaction under the fence of the term.
func fenced(rev int64, ok bool, err error) (int64, error) {
	if err == nil && !ok {
		err = errConflict
	}
	return rev, err
}

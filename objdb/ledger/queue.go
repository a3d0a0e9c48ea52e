package ledger

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/notify"
)

// submission is one caller's plan on its way through the ledger.
type submission struct {
	ctx   context.Context // of the caller
	plan  func(*Tx) error
	taken atomic.Bool // by the ledger, or by a caller that has given up

	rev  int64
	err  error
	done chan struct{}
}

func newSubmission(ctx context.Context, plan func(*Tx) error) *submission {
	return &submission{ctx: ctx, plan: plan, done: make(chan struct{})}
}

// claim reserves the plan for the ledger; false: the caller has given up.
func (s *submission) claim() bool { return s.taken.CompareAndSwap(false, true) }

// abandon lets the caller stop waiting; false when the plan may have run.
func (s *submission) abandon() bool { return s.taken.CompareAndSwap(false, true) }

func (s *submission) finish(rev int64, err error) {
	s.rev, s.err = rev, err
	close(s.done)
}

// queue has the waiting submissions.
type queue struct {
	mu      sync.Mutex
	waiting []*submission
	closed  bool
	wake    notify.Signal // there may be something to take
}

func newQueue() *queue { return &queue{wake: notify.New()} }

// put adds a submission; false after the end of the term.
func (q *queue) put(s *submission) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.waiting = append(q.waiting, s)
	q.wake.Send()
	return true
}

// hand moves a submission of another queue to this one, unless the term has ended.
func (q *queue) hand(s *submission, term *objdb.Term) {
	s.taken.Store(false)
	if !q.put(s) && s.claim() {
		s.finish(0, term.Ended())
	}
}

// take returns all waiting submissions.
func (q *queue) take() []*submission {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.waiting
	q.waiting = nil
	return list
}

// close refuses all waiting and future submissions.
func (q *queue) close(err error) {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	for _, s := range q.take() {
		if s.claim() {
			s.finish(0, err)
		}
	}
}

// claimed returns the submissions of a list whose callers still wait.
func claimed(list []*submission) []*submission {
	var some []*submission
	for _, s := range list {
		if s.claim() {
			some = append(some, s)
		}
	}
	return some
}

func refuse(list []*submission, err error) {
	for _, s := range list {
		s.finish(0, err)
	}
}

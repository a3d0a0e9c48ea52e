package ledger

import (
	"context"
	"sync/atomic"
)

// submission is one caller's plan on its way through the committer.
type submission struct {
	ctx   context.Context // of the caller
	plan  func(*Tx) error
	taken atomic.Bool // by the committer, or by the caller who gave up

	rev  int64
	err  error
	done chan struct{}
}

// claim is the committer's right to run the plan.
func (s *submission) claim() bool { return s.taken.CompareAndSwap(false, true) }

// abandon is the caller's right to leave; false when the plan may have run.
func (s *submission) abandon() bool { return s.taken.CompareAndSwap(false, true) }

func (s *submission) finish(rev int64, err error) {
	s.rev, s.err = rev, err
	close(s.done)
}

// enqueue hands a submission to the committer; false after the end of the term.
func (l *Ledger) enqueue(s *submission) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.waiting = append(l.waiting, s)
	l.rouse()
	return true
}

// next takes all that wait and nobody has given up.
func (l *Ledger) next() []*submission {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []*submission
	for _, s := range l.waiting {
		if s.claim() {
			list = append(list, s)
		}
	}
	l.waiting = nil
	return list
}

// rouse makes the committer look at the queue.
func (l *Ledger) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// drain refuses what waits and all that will come.
func (l *Ledger) drain() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	refuse(l.next(), l.term.Ended())
}

func refuse(list []*submission, err error) {
	for _, s := range list {
		s.finish(0, err)
	}
}

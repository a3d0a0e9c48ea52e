package k8s

import "time"

// lock is a mutex with a time limit for locking: plans hold up every write of the term.
type lock chan struct{} // of one place

func newLock() lock { return make(lock, 1) }

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }

// lockWithin locks if that is possible in time, and reports whether it did.
func (l lock) lockWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case l <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

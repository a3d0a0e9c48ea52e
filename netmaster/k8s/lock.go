package k8s

import "time"

// lock is a mutex for which somebody may wait only a while: plans hold up every write of the term.
type lock chan struct{} // of one place

func newLock() lock { return make(lock, 1) }

func (l lock) Lock()   { l <- struct{}{} }
func (l lock) Unlock() { <-l }

// lockWithin tells whether it has locked in time.
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

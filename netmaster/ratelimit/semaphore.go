package ratelimit

import (
	"context"

	"github.com/contiv/netplugin/utils/fault"
)

// Semaphore limits how many operations run at once, of all clients together: make(Semaphore, limit).
type Semaphore chan struct{}

// TryAcquire acquires the semaphore until release is called, without waiting. what names the operations in the
// error, fault.Unavailable, if there are too many.
func (s Semaphore) TryAcquire(what string) (release func(), err error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	default:
		return nil, fault.New(fault.Unavailable, "too many %s at a time, try again in a moment", what)
	}
}

// Acquire acquires the semaphore as soon as possible, until release is called; an error if ctx ends before.
func (s Semaphore) Acquire(ctx context.Context) (release func(), err error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

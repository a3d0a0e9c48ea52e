package ratelimit

import (
	"context"

	"github.com/contiv/netplugin/utils/fault"
)

// Semaphore lets so many work at a time, of all clients together: make(Semaphore, so many).
type Semaphore chan struct{}

// TryAcquire acquires it, until release is called. It does not wait: what says which there are too many of.
func (s Semaphore) TryAcquire(what string) (release func(), err error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	default:
		return nil, fault.New(fault.Unavailable, "too many %s at a time, try again in a moment", what)
	}
}

// Acquire acquires it as soon as it can, until release is called, or fails when ctx ends.
func (s Semaphore) Acquire(ctx context.Context) (release func(), err error) {
	select {
	case s <- struct{}{}:
		return func() { <-s }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

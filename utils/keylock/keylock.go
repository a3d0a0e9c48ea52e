// Package keylock has locks by key: work on the same key is serialized, work on different keys is concurrent.
package keylock

import (
	"context"
	"fmt"
	"sync"
)

// Locks are locks by key. The zero value is ready for use; keys without a holder take no memory.
type Locks[K comparable] struct {
	mu   sync.Mutex
	held map[K]chan struct{} // closed on release
}

// Lock waits until the key is free, or until ctx ends.
func (l *Locks[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	for {
		unlock, released := l.Try(key)
		if unlock != nil {
			return unlock, nil
		}
		select {
		case <-released:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for other work on %v: %w", key, context.Cause(ctx))
		}
	}
}

// Try locks the key if it is free; otherwise unlock is nil and released is closed when another attempt may
// succeed.
func (l *Locks[K]) Try(key K) (unlock func(), released <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if busy, held := l.held[key]; held {
		return nil, busy
	}
	if l.held == nil {
		l.held = make(map[K]chan struct{})
	}
	mine := make(chan struct{})
	l.held[key] = mine
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, key)
		close(mine)
	}, nil
}

package ovsd

import (
	"context"
	"sync"
)

// keyed is a mutex per key: work for one endpoint is done one at a time, work
// for different ones is not held up.
type keyed struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when it is given back
}

// lock waits for the key; unlock gives it back.
func (k *keyed) lock(ctx context.Context, key string) (unlock func(), err error) {
	for {
		unlock, holder := k.take(key)
		if holder == nil {
			return unlock, nil
		}
		select {
		case <-holder:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryLock takes the key if it is free.
func (k *keyed) tryLock(key string) (unlock func(), free bool) {
	unlock, holder := k.take(key)
	return unlock, holder == nil
}

// take takes the key, or returns what its holder will close.
func (k *keyed) take(key string) (unlock func(), holder <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if other, held := k.held[key]; held {
		return nil, other
	}
	if k.held == nil {
		k.held = map[string]chan struct{}{}
	}
	mine := make(chan struct{})
	k.held[key] = mine
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.held, key)
		close(mine)
	}, nil
}

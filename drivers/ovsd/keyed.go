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
		k.mu.Lock()
		if k.held == nil {
			k.held = map[string]chan struct{}{}
		}
		other, busy := k.held[key]
		if !busy {
			mine := make(chan struct{})
			k.held[key] = mine
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				defer k.mu.Unlock()
				delete(k.held, key)
				close(mine)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

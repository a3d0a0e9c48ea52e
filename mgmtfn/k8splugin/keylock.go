package k8splugin

import (
	"context"
	"fmt"
	"sync"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
)

// keyLocks has one lock for each attachment somebody works on. The zero value
// is ready for use.
type keyLocks struct {
	mu   sync.Mutex
	held map[cniwire.Attachment]chan struct{} // closed on release
}

// lock waits until nobody else works on the attachment.
func (l *keyLocks) lock(ctx context.Context, a cniwire.Attachment) (unlock func(), err error) {
	for {
		unlock, released := l.try(a)
		if unlock != nil {
			return unlock, nil
		}
		select {
		case <-released:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another command about %s: %w", a, ctx.Err())
		}
	}
}

// try takes the lock if it is free; otherwise unlock is nil and released is
// closed when it is worth another try.
func (l *keyLocks) try(a cniwire.Attachment) (unlock func(), released <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if busy, ok := l.held[a]; ok {
		return nil, busy
	}
	if l.held == nil {
		l.held = map[cniwire.Attachment]chan struct{}{}
	}
	mine := make(chan struct{})
	l.held[a] = mine
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, a)
		close(mine)
	}, nil
}

package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// holderAge is how long the holder of the lock is cached.
const holderAge = time.Second

// holderReader reads the holder of a lock.
type holderReader interface {
	Holder(ctx context.Context, lock string) (string, error)
}

// lookup finds the leader, and caches it.
type lookup struct {
	store holderReader

	mu    sync.Mutex
	known string
	until time.Time
}

// address returns the leader's address, as read at most holderAge ago.
func (l *lookup) address(ctx context.Context) (string, error) {
	l.mu.Lock()
	known, until := l.known, l.until
	l.mu.Unlock()
	if known != "" && time.Now().Before(until) {
		return known, nil
	}
	holder, err := l.store.Holder(ctx, mastercfg.LeaderLock)
	if fault.Is(err, fault.NotFound) {
		return "", errNoLeader
	}
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	l.known, l.until = holder, time.Now().Add(holderAge)
	l.mu.Unlock()
	return holder, nil
}

// forget drops the cached address.
func (l *lookup) forget() {
	l.mu.Lock()
	l.known = ""
	l.mu.Unlock()
}

package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

const (
	// holderAge is how long the holder of the lock is cached.
	holderAge = time.Second
	// lookupTime is how long a request to a known leader waits for the store to name it again.
	lookupTime = 500 * time.Millisecond
	// assumedFor is how long after the store's last answer the leader counts as known. A member starts again in less.
	assumedFor = 15 * time.Second
)

// holderReader reads the holder of a lock.
type holderReader interface {
	Holder(ctx context.Context, lock string) (string, error)
}

// lookup finds the leader, and caches it.
type lookup struct {
	store holderReader

	mu      sync.Mutex
	known   string
	until   time.Time // the store has named it so recently that it is not asked again before
	assumed time.Time // until then requests go to it without asking the store, which did not answer
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

// probable returns the leader to ask. While the store does not answer soon, as when the member of this machine starts
// again, that is the last one known. That does no harm: one that does not lead any more says so or does not answer,
// and is forgotten.
func (l *lookup) probable(ctx context.Context) (string, error) {
	l.mu.Lock()
	last, assumed := l.known, time.Now().Before(l.assumed)
	if time.Since(l.until) > assumedFor {
		last = ""
	}
	l.mu.Unlock()
	switch {
	case last == "":
		return l.address(ctx)
	case assumed:
		return last, nil
	}
	soon, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	leader, err := l.address(soon)
	if !fault.Is(err, fault.Unavailable) || ctx.Err() != nil {
		return leader, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == last {
		l.assumed = time.Now().Add(holderAge)
	}
	return last, nil
}

// forget drops the cached address.
func (l *lookup) forget() {
	l.mu.Lock()
	l.known, l.assumed = "", time.Time{}
	l.mu.Unlock()
}

package agent

import (
	"context"
	"sync"
	"time"
)

// signal wakes one loop; raising it again before the loop has looked changes nothing.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// flag goes up once and stays up.
type flag struct {
	up   chan struct{}
	once *sync.Once
}

func newFlag() flag { return flag{make(chan struct{}), new(sync.Once)} }

func (f flag) raise() { f.once.Do(func() { close(f.up) }) }

func (f flag) raised() bool {
	select {
	case <-f.up:
		return true
	default:
		return false
	}
}

// await blocks until the flag is up.
func (f flag) await(ctx context.Context) error {
	select {
	case <-f.up:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// backoff doubles the time between tries up to a limit.
type backoff struct{ first, limit, current time.Duration }

func newBackoff(first, limit time.Duration) backoff { return backoff{first: first, limit: limit} }

func (b *backoff) next() time.Duration {
	b.current = min(max(b.first, 2*b.current), b.limit)
	return b.current
}

func (b *backoff) reset() { b.current = 0 }

// pause waits for a while or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

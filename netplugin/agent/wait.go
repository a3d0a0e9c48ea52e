package agent

import (
	"context"
	"sync"
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

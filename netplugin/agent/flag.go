package agent

import (
	"context"
	"sync"
)

// flag is raised once and stays up.
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

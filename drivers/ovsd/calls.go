package ovsd

import (
	"context"
	"sync"

	"github.com/contiv/netplugin/utils/fault"
)

// errStopping ends calls in progress when the driver stops.
var errStopping = fault.New(fault.Unavailable, "driver is stopping")

// calls counts the calls in progress, so that a driver that stops can let them undo their changes
// while it still has its connections.
type calls struct {
	mu      sync.Mutex
	shut    bool
	running sync.WaitGroup
	leave   map[*context.CancelCauseFunc]struct{}
}

// enter begins a call; done ends it. The context ends when the driver stops.
func (c *calls) enter(ctx context.Context) (inside context.Context, done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shut {
		return nil, nil, errStopping
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if c.leave == nil {
		c.leave = map[*context.CancelCauseFunc]struct{}{}
	}
	c.leave[&cancel] = struct{}{}
	c.running.Add(1)
	return ctx, func() {
		c.mu.Lock()
		delete(c.leave, &cancel)
		c.mu.Unlock()
		cancel(nil)
		c.running.Done()
	}, nil
}

// close refuses new calls, cancels the others and waits for them.
func (c *calls) close() {
	c.mu.Lock()
	c.shut = true
	for cancel := range c.leave {
		(*cancel)(errStopping)
	}
	c.mu.Unlock()
	c.running.Wait()
}

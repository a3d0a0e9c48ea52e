package ovsd

import (
	"context"
	"sync"

	"github.com/contiv/netplugin/utils/fault"
)

// errStopping ends calls that are under way when the driver stops.
var errStopping = fault.New(fault.Unavailable, "driver is stopping")

// gate counts the calls under way, so that a driver that stops can let them
// undo what they have begun while it still has its connections.
type gate struct {
	mu    sync.Mutex
	shut  bool
	calls sync.WaitGroup
	leave map[*context.CancelCauseFunc]struct{}
}

// enter begins a call; done ends it. The context ends when the driver stops.
func (g *gate) enter(ctx context.Context) (inside context.Context, done func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil, nil, errStopping
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if g.leave == nil {
		g.leave = map[*context.CancelCauseFunc]struct{}{}
	}
	g.leave[&cancel] = struct{}{}
	g.calls.Add(1)
	return ctx, func() {
		g.mu.Lock()
		delete(g.leave, &cancel)
		g.mu.Unlock()
		cancel(nil)
		g.calls.Done()
	}, nil
}

// close lets nobody in any more, cancels the calls and waits for them.
func (g *gate) close() {
	g.mu.Lock()
	g.shut = true
	for cancel := range g.leave {
		(*cancel)(errStopping)
	}
	g.mu.Unlock()
	g.calls.Wait()
}

package shares

import (
	"context"

	"github.com/contiv/netplugin/utils/fault"
)

// Places are for so many at a time, of all clients together: make(Places, so many).
type Places chan struct{}

// Take takes one, until done is called. It does not wait: what says which there are too many of.
func (p Places) Take(what string) (done func(), err error) {
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	default:
		return nil, fault.New(fault.Unavailable, "too many %s at a time, try again in a moment", what)
	}
}

// Wait takes one as soon as there is one, until done is called.
func (p Places) Wait(ctx context.Context) (done func(), err error) {
	select {
	case p <- struct{}{}:
		return func() { <-p }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

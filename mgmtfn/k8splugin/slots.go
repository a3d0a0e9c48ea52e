package k8splugin

import (
	"context"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
)

// slots bounds the commands of a kind: some are carried out, as many wait, and
// the rest is refused at once, so that none of them holds a connection that
// another command needs. ADD has slots of its own: it waits for the master and
// the switch, and a node whose ADDs hang must still be able to delete. So has STATUS:
// a node that is refused an answer is not ready, and DELs may hang as well.
type slots struct{ running, waiting chan struct{} }

func newSlots(n int) slots { return slots{make(chan struct{}, n), make(chan struct{}, n)} }

// enter takes a slot; leave gives it back.
func (s slots) enter(ctx context.Context) (leave func(), err error) {
	leave = func() { <-s.running }
	select {
	case s.running <- struct{}{}:
		return leave, nil
	default:
	}
	select {
	case s.waiting <- struct{}{}:
		defer func() { <-s.waiting }()
	default:
		return nil, types.NewError(types.ErrTryAgainLater,
			fmt.Sprintf("%d commands of this kind are carried out and as many wait", cap(s.running)), "")
	}
	select {
	case s.running <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for one of %d commands to end: %w", cap(s.running), ctx.Err())
	}
}

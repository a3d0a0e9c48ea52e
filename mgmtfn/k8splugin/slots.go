package k8splugin

import (
	"context"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
)

// slots limits the concurrent commands of one kind: n are carried out, n wait, and
// further ones are refused at once, so that connections stay free for
// commands of other kinds. ADD has slots of its own: it waits for the master and
// the switch, and while ADDs hang, DEL must still work. STATUS has its own, too:
// DELs may hang as well, and a node whose STATUS is refused counts as not ready.
type slots struct{ running, waiting chan struct{} }

func newSlots(n int) slots { return slots{make(chan struct{}, n), make(chan struct{}, n)} }

// enter takes a slot; leave releases it.
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

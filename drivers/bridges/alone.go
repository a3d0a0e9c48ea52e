package bridges

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/drivers"
)

// Alone is the driver of a node without uplinks: the driver of the bridge with the tunnel, and a Former, which
// removes the uplinks that the node had.
type Alone struct {
	drivers.NetworkDriver // of the bridge with the tunnel
	former                Former
}

// Former removes former uplinks.
type Former interface {
	// Run removes them, and returns when ctx is done.
	Run(ctx context.Context) error
	// Problem returns what remains of them and why; "" if nothing does.
	Problem() string
}

// NewAlone returns the two as one driver.
func NewAlone(tunnel drivers.NetworkDriver, former Former) *Alone { return &Alone{tunnel, former} }

// Run runs both; each ends when the other does.
func (a *Alone) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.NetworkDriver.Run(ctx) })
	group.Go(func() error { return a.former.Run(ctx) })
	return group.Wait()
}

// Status returns the status of the bridge, with the former uplinks' problem as error if the bridge has none.
func (a *Alone) Status() drivers.Status {
	s := a.NetworkDriver.Status()
	if s.LastError == "" {
		s.LastError = a.former.Problem()
	}
	return s
}

package bridges

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/drivers"
)

// Alone is the driver of a node without uplinks: that of the bridge with the tunnel, beside
// whoever takes down the uplinks that the node had.
type Alone struct {
	drivers.NetworkDriver // of the bridge with the tunnel
	former                Former
}

// Former takes down uplinks that are none any more.
type Former interface {
	// Run does until ctx is done.
	Run(ctx context.Context) error
	// Problem says what is left, and why, "" if nothing is.
	Problem() string
}

// NewAlone joins them.
func NewAlone(tunnel drivers.NetworkDriver, former Former) *Alone { return &Alone{tunnel, former} }

// Run runs both; the end of one is the end of the other.
func (a *Alone) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.NetworkDriver.Run(ctx) })
	group.Go(func() error { return a.former.Run(ctx) })
	return group.Wait()
}

// Status is that of the bridge, with what is left of uplinks.
func (a *Alone) Status() drivers.Status {
	s := a.NetworkDriver.Status()
	if s.LastError == "" {
		s.LastError = a.former.Problem()
	}
	return s
}

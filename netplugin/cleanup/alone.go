package cleanup

import (
	"context"
	"slices"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/uplink"
	"github.com/contiv/netplugin/utils/fault"
)

// checkNoOtherAgent returns an error while a process has the OVSDB lock of one of the bridges, such as an older
// netplugin. Without a database there is no lock.
func checkNoOtherAgent(ctx context.Context, c Config) error {
	for _, bridge := range append(slices.Clone(c.Bridges), uplink.DefaultBridge) {
		taken := false
		err := withLock(ctx, c.RunDir, drivers.LockName(bridge), func(_ context.Context, db *database) error {
			taken = db.client.Excluded()
			return nil
		})
		if err != nil {
			return nil // reported later
		}
		if taken {
			return fault.New(fault.Conflict, "a netplugin keeps bridge %s: stop it first", bridge)
		}
	}
	return nil
}

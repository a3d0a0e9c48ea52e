package cleanup

import (
	"context"
	"slices"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/uplink"
	"github.com/contiv/netplugin/utils/fault"
)

// beAlone refuses while somebody has the lock of one of the bridges, as an older
// netplugin does that shows itself in no other way. Without a database nobody has.
func beAlone(ctx context.Context, c Config) error {
	for _, bridge := range append(slices.Clone(c.Bridges), uplink.DefaultBridge) {
		taken := false
		err := withLock(ctx, c.RunDir, drivers.LockName(bridge), func(_ context.Context, db *database) error {
			taken = db.client.Excluded()
			return nil
		})
		if err != nil {
			return nil // that is said later
		}
		if taken {
			return fault.New(fault.Conflict, "a netplugin keeps bridge %s: stop it first", bridge)
		}
	}
	return nil
}

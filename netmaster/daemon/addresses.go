package daemon

import (
	"context"
	"slices"
)

// followAddresses updates the addresses of this machine in the registration until ctx ends: nodes keep endpoints
// away from a netmaster at all of them, also at one that is added later, such as one that moves between
// netmasters.
func (d *Daemon) followAddresses(ctx context.Context) {
	var told []string
	every(ctx, d.cfg.addressesEvery, func() error {
		if now := d.cfg.addresses(); !slices.Equal(now, told) {
			d.announce()
			told = now
		}
		return nil
	}, nil)
}

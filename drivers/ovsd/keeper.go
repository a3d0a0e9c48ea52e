package ovsd

import (
	"context"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// keeperPause is how long the keeper waits before it tries again what failed.
const keeperPause = 2 * time.Second

// keepBridge makes the rows of our bridge right whenever they are not. The
// first time it also opens the driver for use.
func (d *Driver) keepBridge(ctx context.Context) error {
	for first := true; ; {
		err := d.makeBridge(ctx, &first)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			d.log.WithError(err).WithField("bridge", d.config.Bridge).Warn("bridge is not as it should be")
		}
		d.noteKeeper(err)
		if err := d.waitForChange(ctx, err != nil); err != nil {
			return err
		}
	}
}

// waitForChange returns when the rows want correcting, after a failure also
// when some time has passed.
func (d *Driver) waitForChange(ctx context.Context, failed bool) error {
	wait := ctx
	if failed {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, keeperPause)
		defer cancel()
	}
	err := d.db.client.Wait(wait, func() (bool, error) {
		return !failed && d.db.client.Connected() && len(d.wanted().operations(d.db)) > 0, nil
	})
	if err != nil && ctx.Err() == nil {
		return nil // time to try again
	}
	return err
}

func (d *Driver) makeBridge(ctx context.Context, first *bool) error {
	if err := d.db.client.Wait(ctx, func() (bool, error) { return d.db.client.Connected(), nil }); err != nil {
		return err
	}
	if *first {
		d.numbers.startAfter(d.db)
	}
	if ops := d.wanted().operations(d.db); len(ops) > 0 {
		if _, err := d.db.client.Transact(ctx, ops...); err != nil {
			return err
		}
		d.log.WithField("bridge", d.config.Bridge).Info("bridge set right")
	}
	if err := d.adoptLinks(ctx); err != nil {
		return err
	}
	if *first {
		*first = false
		close(d.ready)
	}
	// Without a tunnel the node works, but alone.
	if tunnel, ok := d.db.tunnel(); ok && tunnel.link.Error != nil {
		return fault.New(fault.Unavailable, "tunnel port %s: %s", tunnelName, *tunnel.link.Error)
	}
	return nil
}

func (d *Driver) wanted() wantedBridge {
	return wantedBridge{
		name:      d.config.Bridge,
		datapath:  d.datapath,
		vtep:      d.config.VTEP,
		vxlanPort: d.config.VXLANPort,
	}
}

func (d *Driver) noteKeeper(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keeperFail = ""
	if err != nil {
		d.keeperFail = fault.New(fault.KindOf(err), "bridge %s: %w", d.config.Bridge, err).Error()
	}
}

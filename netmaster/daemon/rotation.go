package daemon

import (
	"context"
	"time"

	"github.com/contiv/netplugin/netmaster/joining"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// keepUpEvery is how often a netmaster that follows looks whether its authorities are
// those of the cluster still.
const keepUpEvery = 2 * time.Second

// keepUp asks the leader for the authorities that the record names, where those here are
// others, until ctx ends.
func (d *Daemon) keepUp(ctx context.Context) {
	for ; ctx.Err() == nil; retry.Pause(ctx, keepUpEvery) {
		own := d.papers.authorities()
		record, err := d.record(ctx)
		if err != nil || own == nil || record.Authorities == "" || record.Authorities == own.Hash() || d.front.leading() != nil {
			continue
		}
		if err := d.takeOver(ctx, own, record.Authorities); err != nil && ctx.Err() == nil {
			d.log.WithError(err).Warn("the authorities have been replaced, and are not known here yet: trying again")
		}
	}
}

func (d *Daemon) takeOver(ctx context.Context, own pki.Authorities, wanted string) error {
	leader, err := d.front.proxy.leader.address(ctx)
	if err != nil {
		return err
	}
	config := d.papers.dialer()
	if config == nil {
		return nil
	}
	files, err := joining.Authorities(ctx, config, leader)
	if err != nil {
		return err
	}
	all, err := pki.Decode(files)
	if err != nil {
		return err
	}
	if all.Cluster() != own.Cluster() || all.Hash() != wanted {
		return fault.New(fault.Conflict, "netmaster at %s has other authorities than the cluster's record names", leader)
	}
	if err := d.papers.replace(own, all); err != nil {
		return err
	}
	d.log.WithField("step", all.Step()).Info("authorities replaced")
	return nil
}

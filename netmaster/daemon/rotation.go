package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/joining"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// keepUpEvery is how often a netmaster that follows looks whether its authorities are
// those of the cluster still.
const keepUpEvery = time.Second

// keepUp asks the leader for the authorities and the keyring that the record names, where those
// here are others, until ctx ends. One that was away for so long that the leader does not know it
// any more, nor it the leader, joins anew, if it has a token.
func (d *Daemon) keepUp(ctx context.Context) {
	var said string
	for ; ctx.Err() == nil; retry.Pause(ctx, keepUpEvery) {
		own := d.papers.authorities()
		record, err := d.record(ctx)
		if err != nil || own == nil || d.front.leading() != nil || d.hasThoseOf(record) {
			continue
		}
		err = d.takeOver(ctx, own, record)
		if s := d.cfg.Security; err != nil && !fault.Is(err, fault.Conflict) && (s.TokenFile != "" || s.Vouched != nil) {
			if anew := d.tryJoin(ctx); anew != nil {
				err = fmt.Errorf("%w; nor can it join anew: %w", err, anew)
			} else {
				err = nil
			}
		}
		if err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			d.log.WithError(err).Error("the authorities or the keyring of the cluster have been replaced, and are not known here yet: trying again; " +
				"a netmaster that was away meanwhile needs a token of now (netctl token create --role master) in its --join-token-file")
		}
	}
}

// hasThoseOf tells whether this netmaster has what a record names.
func (d *Daemon) hasThoseOf(record mastercfg.Security) bool {
	return (record.Authorities == "" || record.Authorities == d.papers.authorities().Hash()) &&
		(record.Keyring == "" || record.Keyring == d.keyring.State())
}

func (d *Daemon) takeOver(ctx context.Context, own pki.Authorities, record mastercfg.Security) error {
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
	if all.Cluster() != own.Cluster() || record.Authorities != "" && all.Hash() != record.Authorities {
		return fault.New(fault.Conflict, "netmaster at %s has other authorities than the cluster's record names", leader)
	}
	if err := d.use(own, all, files); err != nil {
		return err
	}
	if !d.hasThoseOf(record) { // as one of an older version, which hands over no keyring
		return fault.New(fault.Conflict, "netmaster at %s has another keyring than the cluster's record names", leader)
	}
	d.log.WithFields(logrus.Fields{"step": all.Step(), "keyring": d.keyring.State()}).Info("authorities and keyring are those of the leader")
	return nil
}

// use keeps what another netmaster has handed over: the keyring first, for who has the authorities
// may lead.
func (d *Daemon) use(own, all pki.Authorities, files map[string]string) error {
	if keys := files[keyring.Name]; keys != "" && d.keyring != nil {
		if err := d.keyring.Take(keys); err != nil {
			return err
		}
	}
	if own.Hash() == all.Hash() {
		return nil
	}
	return d.papers.replace(own, all)
}

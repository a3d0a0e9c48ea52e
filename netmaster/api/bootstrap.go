package api

import (
	"context"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// What the global object starts with where the flags say nothing.
const (
	DefaultArpMode   = "proxy"
	DefaultPvtSubnet = "172.19.0.0/16"
	DefaultVlans     = "1-4094"
	DefaultVxlans    = "1-10000"
	DefaultTenant    = "default"
)

// Bootstrap makes what a cluster cannot be without, if it is absent: the global
// object, the pool of group ids and the tenant "default". Where the global object
// exists, the modes of the flags go through the checks of any update, each by
// itself; a refusal leaves the stored one in force and is only reported.
func (a *API) Bootstrap(ctx context.Context) error {
	config := &a.config
	wanted := config.Defaults
	_, err := a.ledger.Update(ctx, func(tx *ledger.Tx) error {
		c := &change{tx, config, nil}
		if master.Exists(tx, "global", contivmodel.GlobalName) {
			return nil
		}
		fresh := wanted
		return createGlobal(c, &fresh)
	})
	if err != nil {
		return err
	}
	for _, mode := range []contivmodel.Global{{FwdMode: wanted.FwdMode}, {NetworkInfraType: wanted.NetworkInfraType}} {
		if err := a.applyMode(ctx, mode); err != nil {
			return err
		}
	}
	_, err = a.ledger.Update(ctx, func(tx *ledger.Tx) error {
		if master.Exists(tx, "tenant", DefaultTenant) {
			return nil
		}
		return createTenant(&change{tx, config, nil}, &contivmodel.Tenant{TenantName: DefaultTenant})
	})
	return err
}

// applyMode updates the global object with a mode of the flags. One that is
// refused is reported; that the store or the term is lost is an error.
func (a *API) applyMode(ctx context.Context, mode contivmodel.Global) error {
	_, err := a.ledger.Update(ctx, func(tx *ledger.Tx) error {
		stored, err := master.Get[contivmodel.Global](tx, contivmodel.GlobalName, notFound("global"))
		if err != nil {
			return err
		}
		flags := *stored
		flags.FwdMode = or(mode.FwdMode, stored.FwdMode)
		flags.NetworkInfraType = or(mode.NetworkInfraType, stored.NetworkInfraType)
		return updateGlobal(&change{tx, &a.config, nil}, stored, &flags)
	})
	if err == nil || fault.Is(err, fault.NotLeader) || fault.Is(err, fault.Unavailable) {
		return err
	}
	a.config.Log.WithError(err).WithField("flags", mode.FwdMode+mode.NetworkInfraType).
		Warn("a mode of the flags is not applied, the stored one stays in force")
	return nil
}

// WithDefaults fills in what the flags leave open.
func WithDefaults(flags contivmodel.Global) contivmodel.Global {
	flags.Name = contivmodel.GlobalName
	flags.ArpMode = or(flags.ArpMode, DefaultArpMode)
	flags.NetworkInfraType = or(flags.NetworkInfraType, "default")
	flags.PvtSubnet = or(flags.PvtSubnet, DefaultPvtSubnet)
	flags.Vlans = or(flags.Vlans, DefaultVlans)
	flags.Vxlans = or(flags.Vxlans, DefaultVxlans)
	return flags
}

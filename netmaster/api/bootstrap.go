package api

import (
	"context"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/objdb"
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

// Bootstrap makes what a cluster cannot be without, if it is absent: the
// global object, the pool of group ids and the tenant "default". Where the global object exists, the
// modes of the flags go through the checks of any update; a refusal leaves the
// stored ones in force and is only reported.
func (a *API) Bootstrap(ctx context.Context) error {
	config := &a.config
	wanted := config.Defaults
	_, err := a.ledger.Update(ctx, func(tx *objdb.Tx) error {
		c := &change{tx, config}
		if master.Exists(tx, "global", contivmodel.GlobalName) {
			return nil
		}
		fresh := wanted
		return createGlobal(c, &fresh)
	})
	if err != nil {
		return err
	}
	_, err = a.ledger.Update(ctx, func(tx *objdb.Tx) error {
		stored, err := master.Get[contivmodel.Global](tx, contivmodel.GlobalName, notFound("global"))
		if err != nil {
			return err
		}
		flags := *stored
		flags.FwdMode = or(wanted.FwdMode, stored.FwdMode)
		flags.NetworkInfraType = or(wanted.NetworkInfraType, stored.NetworkInfraType)
		return updateGlobal(&change{tx, config}, stored, &flags)
	})
	if fault.Is(err, fault.NotLeader) || fault.Is(err, fault.Unavailable) {
		return err
	}
	if err != nil {
		config.Log.WithError(err).Warn("the modes of the flags are not applied, the stored ones stay in force")
	}
	_, err = a.ledger.Update(ctx, func(tx *objdb.Tx) error {
		if err := master.DefineGroupIDs(tx); err != nil {
			return err
		}
		if master.Exists(tx, "tenant", DefaultTenant) {
			return nil
		}
		return createTenant(&change{tx, config}, &contivmodel.Tenant{TenantName: DefaultTenant})
	})
	return err
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

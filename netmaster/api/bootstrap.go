package api

import (
	"cmp"
	"context"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/objects"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Defaults of the global object where the flags leave fields empty.
const (
	defaultArpMode = "proxy"
	defaultVlans   = "1-4094"
	defaultVxlans  = "1-10000"
)

// Bootstrap creates the objects that a cluster needs, if they are absent: the global object, the pool of group
// ids and the tenant "default". If the global object exists, each mode of the flags is validated like an
// update; a refused one leaves the stored mode in force and is only logged.
func (a *API) Bootstrap(ctx context.Context) error {
	wanted := a.config.Defaults
	global, tenant := a.types["global"], a.types["tenant"]
	_, err := a.ledger.Update(ctx, func(tx *ledger.Tx) error {
		if master.Exists(tx, "global", contivmodel.GlobalName) {
			return nil
		}
		_, err := global.Create(a.ownChange(tx), &wanted)
		return err
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
		if master.Exists(tx, "tenant", mastercfg.DefaultTenant) {
			return nil
		}
		_, err := tenant.Create(a.ownChange(tx), &contivmodel.Tenant{TenantName: mastercfg.DefaultTenant})
		return err
	})
	return err
}

// applyMode updates the global object with a mode of the flags. A
// refusal is logged; loss of the store or the term is returned.
func (a *API) applyMode(ctx context.Context, mode contivmodel.Global) error {
	_, err := a.ledger.Update(ctx, func(tx *ledger.Tx) error {
		stored, err := master.Get[contivmodel.Global](tx, contivmodel.GlobalName, objects.NotFound("global"))
		if err != nil {
			return err
		}
		flags := *stored
		flags.FwdMode = cmp.Or(mode.FwdMode, stored.FwdMode)
		flags.NetworkInfraType = cmp.Or(mode.NetworkInfraType, stored.NetworkInfraType)
		return a.types["global"].Update(a.ownChange(tx), stored, &flags)
	})
	if err == nil || fault.Is(err, fault.NotLeader) || fault.Is(err, fault.Unavailable) {
		return err
	}
	a.config.Log.WithError(err).WithField("flags", mode.FwdMode+mode.NetworkInfraType).
		Warn("a mode of the flags is not applied, the stored one stays in force")
	return nil
}

// WithDefaults returns the flags with defaults for empty fields. The fabric stays empty: a flag that is not given does
// not undo at the next start of a term what netctl has set.
func WithDefaults(flags contivmodel.Global) contivmodel.Global {
	flags.Name = contivmodel.GlobalName
	flags.ArpMode = cmp.Or(flags.ArpMode, defaultArpMode)
	flags.PvtSubnet = cmp.Or(flags.PvtSubnet, objects.DefaultPvtSubnet)
	flags.Vlans = cmp.Or(flags.Vlans, defaultVlans)
	flags.Vxlans = cmp.Or(flags.Vxlans, defaultVxlans)
	return flags
}

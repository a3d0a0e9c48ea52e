package api

import (
	"context"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/objdb/ledger"
)

// FirstNetworks creates the networks of a new cluster, all of them or none. made is false if the cluster has
// networks or tenants of its own, which are not changed.
func (a *API) FirstNetworks(ctx context.Context, networks ...*contivmodel.Network) (made bool, err error) {
	_, err = a.ledger.Update(ctx, func(tx *ledger.Tx) error {
		if made = master.IsNew(tx); !made {
			return nil
		}
		for _, n := range networks {
			fresh := *n
			contivmodel.ApplyDefaults(&fresh)
			fresh.SetKey(fresh.ModelKey())
			if err := contivmodel.Validate(&fresh); err != nil {
				return err
			}
			if _, err := a.types["network"].Create(a.ownChange(tx), &fresh); err != nil {
				return err
			}
		}
		return nil
	})
	return made && err == nil, err
}

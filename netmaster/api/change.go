package api

import (
	"context"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/objects"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
)

// change returns the context of a plan for the caller of the request.
func (a *API) change(ctx context.Context, tx *ledger.Tx) *objects.Change {
	c := a.ownChange(tx)
	if caller := auth.CallerFrom(ctx); caller != nil {
		c.By = caller
	}
	return c
}

// ownChange returns the context of a plan of netmaster itself.
func (a *API) ownChange(tx *ledger.Tx) *objects.Change {
	return &objects.Change{Tx: tx, Config: a.objects}
}

// view returns the context of an inspection.
func (a *API) view(ctx context.Context, r ledger.Reader) *objects.View {
	return &objects.View{
		Reader: r, ClusterMode: a.config.ClusterMode,
		OfCluster: auth.CallerFrom(ctx).May(r, auth.Need{Verb: rights.Read, Area: rights.Cluster}),
	}
}

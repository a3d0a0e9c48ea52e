package daemon

import (
	"context"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/space"
)

// newKeeper makes the keeper of the store's space. It works whether or not this netmaster leads, because with a
// full store there is no election.
func newKeeper(cfg Config, db *objdb.DB, m *member) *space.Keeper {
	k := space.Config{Store: db, Log: cfg.Log.WithField("component", "space")}
	if m.cfg != nil {
		k.Member = spaceMember{m}
	}
	return space.New(k)
}

// spaceMember is this netmaster's own member, as its keeper uses it.
type spaceMember struct{ *member }

func (m spaceMember) URL() string {
	if server := m.running(); server != nil {
		return server.ClientURLs()[0]
	}
	return ""
}

func (m spaceMember) Missing(ctx context.Context) ([]string, error) { return m.running().Missing(ctx) }

func (m spaceMember) Turn(ctx context.Context) (end func(), err error) {
	return m.turn(ctx, rewriteLockTTL)
}

// watch adds metrics of the store's space.
func (m *metrics) watch(k *space.Keeper) {
	m.gauge("netmaster_store_size_bytes", "Size of the store's file, of the member where it is largest.",
		func() float64 { return float64(k.Usage().Size) })
	m.gauge("netmaster_store_in_use_bytes", "Part of the store's file that holds data.",
		func() float64 { return float64(k.Usage().InUse) })
	m.gauge("netmaster_store_quota_bytes", "Size at which the store refuses to grow; 0 if it does not tell.",
		func() float64 { return float64(k.Usage().Quota) })
	m.gauge("netmaster_store_full", "1 while nothing can be added to the store.", func() float64 {
		if k.Usage().Full {
			return 1
		}
		return 0
	})
}

package daemon

import (
	"context"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/objdb/space"
)

// member is the embedded store, if there is one; without, it does nothing.
type member struct{ server *embedded.Server }

// memberStart bounds waiting for the other members: the daemon serves
// meanwhile, and does as with any store that is away.
const memberStart = 5 * time.Second

func (d *Daemon) startMember(ctx context.Context) (member, error) {
	if d.cfg.Embedded == nil {
		return member{}, nil
	}
	waiting, cancel := context.WithTimeout(ctx, memberStart)
	defer cancel()
	server, err := embedded.Start(waiting, *d.cfg.Embedded)
	return member{server}, err
}

// Err carries the error that ended the member.
func (m member) Err() <-chan error {
	if m.server == nil {
		return nil
	}
	return m.server.Err()
}

// Stop leaves the cluster of members to the others.
func (m member) Stop() error {
	if m.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), memberStopTime)
	defer cancel()
	return m.server.Stop(ctx)
}

// newKeeper looks after the room in the store. It works whether or not this
// netmaster leads, because a store that is full elects nobody.
func newKeeper(cfg Config, db *objdb.DB) *space.Keeper {
	k := space.Config{Store: db, Log: cfg.Log.WithField("component", "space")}
	if cfg.Embedded != nil {
		k.Member = cfg.Embedded.ClientURL
	}
	return space.New(k)
}

// watch shows how full the store is.
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

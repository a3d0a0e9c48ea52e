package main

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/contiv/netplugin/netplugin/cluster"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/hostaddr"
)

// addressesEvery is how often a node looks which addresses it has.
const addressesEvery = 15 * time.Second

// authoritiesEvery is how often a node looks which authorities it trusts. Netmasters ask it
// over TLS only once they know.
const authoritiesEvery = time.Second

// registrar keeps the node in the registry of the cluster.
type registrar struct {
	registration atomic.Pointer[objdb.Registration] // nil: not begun
}

// refused tells why the cluster does not know the node: it refuses what that says of itself. Nil: it knows it, or has not answered.
func (r *registrar) refused() error {
	if registration := r.registration.Load(); registration != nil {
		return registration.Refused()
	}
	return nil
}

// stayRegistered keeps the node registered with its present addresses and authorities, and says that it
// is ready as soon as it can attach endpoints. It does not withdraw the node at the end, which
// Close would do: the switch forwards on, and the next agent is usually here before the lease
// runs out.
func (r *registrar) stayRegistered(db *objdb.DB, node cluster.Node, awaitSync func(context.Context) error, authorities func() string) task {
	return func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		var waiting sync.WaitGroup
		defer waiting.Wait()
		defer stop()
		ready := make(chan struct{})
		waiting.Go(func() {
			if awaitSync(ctx) == nil {
				close(ready)
			}
		})
		node.Authorities = authorities()
		told, said := hostaddr.All(), node
		registration, err := db.Register(ctx, cluster.RegistrationTTL, node.Services(told...)...)
		if err != nil {
			return err
		}
		r.registration.Store(registration)
		again := time.NewTicker(addressesEvery)
		defer again.Stop()
		joining := time.NewTicker(authoritiesEvery)
		defer joining.Stop()
		for {
			select {
			case <-joining.C:
				if authorities() == node.Authorities {
					continue
				}
			case <-again.C:
			case <-ready:
				node.Ready, ready = true, nil
			case <-ctx.Done():
				return nil
			}
			node.Authorities = authorities()
			if now := hostaddr.All(); node != said || !slices.Equal(now, told) {
				registration.Update(node.Services(now...)...)
				told, said = now, node
			}
		}
	}
}

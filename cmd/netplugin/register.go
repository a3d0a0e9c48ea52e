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

// addressesEvery is the interval at which a node checks its addresses.
const addressesEvery = 15 * time.Second

// authoritiesEvery is the interval at which a node checks its CAs. Netmasters connect to it over TLS only when the
// CAs are registered.
const authoritiesEvery = time.Second

// registrar maintains the node's registration in the cluster.
type registrar struct {
	registration atomic.Pointer[objdb.Registration] // nil: not begun
}

// refused returns why the cluster refuses the node's registration; nil if it accepted it, or has not answered.
func (r *registrar) refused() error {
	if registration := r.registration.Load(); registration != nil {
		return registration.Refused()
	}
	return nil
}

// stayRegistered keeps the node registered with its present addresses and CAs, and marks it as ready as soon as it
// can attach endpoints. It does not withdraw the registration at the end, as Close would: the switch continues to
// forward, and the next agent usually starts before the lease expires.
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

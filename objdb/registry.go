package objdb

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/utils/fault"
)

// ServicePrefix is the root of the service registry.
const ServicePrefix = "/contiv.io/service/"

// Service is one instance of a service, as other tools read it.
type Service struct {
	ServiceName string
	Role        string
	Version     string
	TTL         int // seconds
	HostAddr    string
	Port        int
	Hostname    string
}

// Key is where the instance is registered.
func (s Service) Key() string {
	return ServicePrefix + s.ServiceName + "/" + net.JoinHostPort(s.HostAddr, strconv.Itoa(s.Port))
}

// Registration keeps services registered on one lease, for as long as the
// process lives. A lost lease is replaced and the keys are put again.
type Registration struct {
	db     *DB
	ttl    time.Duration
	cancel context.CancelCauseFunc
	done   chan struct{}
	change chan struct{} // wanted has changed

	mu     sync.Mutex
	wanted []Service
}

// errWithdrawn ends a registration whose services are to go at once.
var errWithdrawn = errors.New("services withdrawn")

// Register announces services until Close, which withdraws them, or the end of
// ctx, after which they expire with their lease: a process that is restarted
// registers again before anybody notices. It works in the background and starts
// while the store is away.
func (db *DB) Register(ctx context.Context, ttl time.Duration, services ...Service) (*Registration, error) {
	if ttl < time.Second {
		return nil, fault.New(fault.Invalid, "service registration: TTL %s is below 1s", ttl)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r := &Registration{
		db: db, ttl: ttl, cancel: cancel,
		done: make(chan struct{}), change: make(chan struct{}, 1),
		wanted: services,
	}
	go func() {
		defer close(r.done)
		r.run(ctx)
	}()
	return r, nil
}

// Update replaces the announced services: a changed role is put at once, an
// instance left out is withdrawn.
func (r *Registration) Update(services ...Service) {
	r.mu.Lock()
	r.wanted = services
	r.mu.Unlock()
	select {
	case r.change <- struct{}{}:
	default:
	}
}

// Close withdraws the services at once.
func (r *Registration) Close(ctx context.Context) error {
	r.cancel(errWithdrawn)
	select {
	case <-r.done:
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "withdraw services: %w", ctx.Err())
	}
	return nil
}

// run holds one lease after the other.
func (r *Registration) run(ctx context.Context) {
	wait := newPacer(retryFirst, retryMost)
	log := r.db.log.WithField("ttl", r.ttl)
	for ctx.Err() == nil {
		held, err := r.db.grant(ctx, r.ttl)
		if err == nil {
			wait.reset()
			err = r.hold(ctx, held)
		}
		if ctx.Err() != nil {
			return
		}
		log.WithError(err).Warn("services are not registered, registering again")
		wait.sleep(ctx)
	}
}

// hold keeps the services on a lease until the lease is lost or ctx ends.
func (r *Registration) hold(ctx context.Context, held *lease) error {
	alive, stop := context.WithCancelCause(ctx)
	var renewing sync.WaitGroup
	renewing.Go(func() { stop(held.keep(alive, held.ttl)) })
	err := r.publish(alive, held)
	stop(err)
	renewing.Wait()
	if ctx.Err() != nil && context.Cause(ctx) != errWithdrawn {
		return err
	}
	// The keys go at once instead of when the lease expires.
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.db.cfg.RequestTimeout)
	defer cancel()
	if gone := held.revoke(bye); err == nil {
		err = gone
	}
	return err
}

// publish puts the wanted services, again after each change, and deletes those
// no longer wanted.
func (r *Registration) publish(ctx context.Context, held *lease) error {
	var published []string
	for {
		r.mu.Lock()
		wanted := r.wanted
		r.mu.Unlock()
		keys, err := r.put(ctx, held, wanted, published)
		if err != nil {
			return err
		}
		published = keys
		select {
		case <-r.change:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *Registration) put(ctx context.Context, held *lease, wanted []Service, published []string) ([]string, error) {
	keys := map[string]bool{}
	var ops []clientv3.Op
	for _, s := range wanted {
		value, err := json.Marshal(s)
		if err != nil {
			return nil, fault.New(fault.Internal, "service %s: encode: %w", s.Key(), err)
		}
		keys[s.Key()] = true
		ops = append(ops, clientv3.OpPut(s.Key(), string(value), clientv3.WithLease(held.id)))
	}
	for _, key := range published {
		if !keys[key] {
			ops = append(ops, clientv3.OpDelete(key))
		}
	}
	_, err := request(ctx, r.db, "register services", func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
		return c.Txn(ctx).Then(ops...).Commit()
	})
	if err != nil {
		return nil, err
	}
	published = published[:0:0]
	for key := range keys {
		published = append(published, key)
	}
	return published, nil
}

// Services lists the registered instances of a service. Corrupt entries are
// reported and left out.
func (db *DB) Services(ctx context.Context, name string) ([]Service, error) {
	kvs, _, err := db.List(ctx, ServicePrefix+name+"/")
	if err != nil {
		return nil, err
	}
	services := make([]Service, 0, len(kvs))
	for _, kv := range kvs {
		var s Service
		if err := json.Unmarshal(kv.Value, &s); err != nil {
			db.log.WithField("key", kv.Key).WithError(err).Error("corrupt service entry skipped")
			continue
		}
		services = append(services, s)
	}
	return services, nil
}

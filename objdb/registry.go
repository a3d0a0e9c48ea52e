package objdb

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/logging"
	"github.com/contiv/netplugin/utils/notify"
	"github.com/contiv/netplugin/utils/retry"
)

// ServicePrefix is the root of the service registry.
const ServicePrefix = "/contiv.io/service/"

// Service is one instance of a service; other tools read it.
type Service struct {
	ServiceName string
	Role        string
	Version     string
	TTL         int // seconds
	HostAddr    string
	Port        int
	Hostname    string
	Ready       bool     `json:",omitempty"` // of an agent: it can attach endpoints
	REST        int      `json:",omitempty"` // of an agent: port of its REST server; 0: the default
	Ports       []int    `json:",omitempty"` // of a netmaster: ports at which it listens besides Port
	AnyPod      bool     `json:",omitempty"` // of an agent: it supports rules of policies about any pod
	Addresses   []string `json:",omitempty"` // all addresses of the machine; endpoints are kept off its control ports
	Authorities string   `json:",omitempty"` // hash of the CAs that it has; empty: none
	Keyring     string   `json:",omitempty"` // of a netmaster: state of its keys for secrets in the store
	Seals       bool     `json:",omitempty"` // of a netmaster: only netmasters have access to its store, and it decrypts values for agents
	Opens       bool     `json:",omitempty"` // it can read encrypted values of the store: a netmaster, or an agent that reads through netmasters
}

// Key returns the key of the registration.
func (s Service) Key() string {
	return ServicePrefix + s.ServiceName + "/" + net.JoinHostPort(s.HostAddr, strconv.Itoa(s.Port))
}

// Registration keeps services registered on a lease, as long as the process lives. A lost lease is
// replaced and the keys are put again, as is a key that somebody has deleted.
//
// A put without an answer may be executed later, even if its key has been withdrawn since: an absent key has no
// revision to compare. It is impossible after its lease has ended. So after such a put and a withdrawal the
// wanted keys move to a new lease, and the former one is revoked.
type Registration struct {
	db       *DB
	ttl      time.Duration
	cancel   context.CancelFunc
	done     chan struct{}
	leases   []tenure       // not revoked yet, the present one last; Close owns them when done is closed
	renewing sync.WaitGroup // of leases
	change   notify.Signal  // wanted has changed

	mu      sync.Mutex
	wanted  []Service
	refused error // why the store refused them in its last answer; nil: it has them
}

// tenure is a lease that is renewed until stop is called.
type tenure struct {
	*lease
	alive context.Context // ends when the lease is lost or not renewed any more
	stop  context.CancelCauseFunc
}

// Register announces services until Close, which withdraws them, or until the end of ctx, after which they
// expire with their lease: a restarted process registers again before that. It works in the background, and can
// start while the store is unreachable.
func (db *DB) Register(ctx context.Context, ttl time.Duration, services ...Service) (*Registration, error) {
	if ttl < time.Second {
		return nil, fault.New(fault.Invalid, "service registration: TTL %s is below 1s", ttl)
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &Registration{
		db: db, ttl: ttl, cancel: cancel,
		done: make(chan struct{}), change: notify.New(),
		wanted: services,
	}
	go func() {
		defer close(r.done)
		r.run(ctx)
	}()
	return r, nil
}

// Update replaces the announced services: changed ones are put at once, missing ones are withdrawn.
func (r *Registration) Update(services ...Service) {
	r.mu.Lock()
	r.wanted = services
	r.mu.Unlock()
	r.change.Send()
}

// Refused returns why the store refused the services in its last answer; nil: it has them, or has not answered.
func (r *Registration) Refused() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// learn records the result of an attempt; an unreachable store changes nothing.
func (r *Registration) learn(err error) {
	if err != nil && !fault.Is(err, fault.Denied) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = err
}

// Close withdraws the services at once.
func (r *Registration) Close(ctx context.Context) error {
	r.cancel()
	select {
	case <-r.done:
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "withdraw services: %w", ctx.Err())
	}
	var failed error
	for _, held := range r.leases {
		failed = cmp.Or(failed, held.revoke(ctx))
	}
	return failed
}

// run holds leases one after the other until ctx ends.
func (r *Registration) run(ctx context.Context) {
	defer r.renewing.Wait()
	wait := retry.NewPacer(RetryFirst, RetryMost)
	var trouble logging.Trouble // a repeated error is logged at intervals
	for {
		held, err := r.db.grant(ctx, r.ttl)
		if err != nil {
			r.learn(err)
		} else {
			wait.Reset()
			trouble.Over()
			err = r.hold(r.renew(ctx, held))
		}
		if ctx.Err() != nil {
			return
		}
		level := logrus.DebugLevel
		if !errors.Is(err, errMove) && trouble.IsNews(err, time.Now()) {
			level = logrus.WarnLevel
		}
		r.db.log.WithError(err).Log(level, "services are not registered, registering again")
		wait.Sleep(ctx)
	}
}

// renew makes a lease the present one. It is renewed until ctx ends or the lease is revoked.
func (r *Registration) renew(ctx context.Context, held *lease) tenure {
	t := tenure{lease: held}
	t.alive, t.stop = context.WithCancelCause(ctx)
	r.renewing.Go(func() { t.stop(held.keep(t.alive, held.ttl)) })
	r.leases = append(r.leases, t)
	return t
}

// errMove requests another lease.
var errMove = errors.New("what was put without an answer must not come any more")

// hold keeps the services on a lease until the lease is lost, another one is needed or the registration ends.
func (r *Registration) hold(held tenure) error {
	wait := retry.NewPacer(RetryFirst, RetryMost)
	published := map[string]struct{}{} // keys that are in the store, or may be
	doubt, move := false, false        // some may be put later; and have been withdrawn
	var trouble logging.Trouble        // a repeated error is logged at intervals
	for {
		history := r.db.Standing().History
		wanted := r.entries()
		txn, err := r.changes(held.alive, published, wanted)
		var rev int64
		if err == nil {
			rev, err = r.publish(held.alive, held.id, txn)
			doubt = doubt || fault.Is(err, fault.Unavailable)
			if err == nil {
				move = move || doubt && len(txn.Deletes) > 0
				clear(published)
			}
			if err == nil || fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Exhausted) { // see Term.Commit
				for key := range wanted {
					published[key] = struct{}{}
				}
			}
		}
		if err == nil {
			err = r.giveBack(held.alive)
		}
		if held.alive.Err() != nil {
			return context.Cause(held.alive)
		}
		r.learn(err)
		if err != nil {
			level := logrus.DebugLevel
			if fault.Is(err, fault.Denied) && trouble.IsNews(err, time.Now()) {
				level = logrus.WarnLevel // a refusal is permanent; for other errors the lease reports a long outage
			}
			r.db.log.WithError(err).Log(level, "putting services failed, trying again")
			wait.Sleep(held.alive)
			continue
		}
		trouble.Over()
		wait.Reset()
		if move {
			return errMove
		}
		if !r.outdated(held.alive, history, txn.Puts, rev) {
			return context.Cause(held.alive)
		}
	}
}

// giveBack revokes the leases before the present one.
func (r *Registration) giveBack(ctx context.Context) error {
	for len(r.leases) > 1 {
		if err := r.leases[0].revoke(ctx); err != nil {
			return err
		}
		r.leases[0].stop(nil)
		r.leases = r.leases[1:]
	}
	return nil
}

// outdated blocks until the entries have to be put again: others are wanted, one of those that were put at a revision
// is gone, or the store has another history. It returns false when ctx ends before.
func (r *Registration) outdated(ctx context.Context, history int, entries []KV, rev int64) bool {
	watching, stop := context.WithCancel(ctx)
	var watches sync.WaitGroup
	defer watches.Wait()
	defer stop()
	gone := notify.New()
	for _, entry := range entries {
		watches.Go(func() {
			if r.db.awaitAbsent(watching, entry.Key, rev) {
				gone.Send()
			}
		})
	}
	for {
		s := r.db.Standing()
		if s.History != history {
			return true
		}
		select {
		case <-r.change:
			return true
		case <-gone:
			return true
		case <-s.Changed:
		case <-ctx.Done():
			return false
		}
	}
}

// awaitAbsent blocks until a key that existed at a revision does not exist any more, as when somebody has deleted it. It
// returns false when ctx ends before. After a deletion it pauses: another host with the address of this one deletes the
// key before it puts its own, which then stays, and the two do not delete each other's for ever.
func (db *DB) awaitAbsent(ctx context.Context, key string, rev int64) bool {
	for ctx.Err() == nil {
		// An error means that the watch is behind its history, or that the store has ended it.
		_, _ = db.awaitDelete(ctx, key, rev+1)
		retry.Pause(ctx, RetryMost)
		resp, err := Call(ctx, db, "look for "+key, func(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) {
			return c.Get(ctx, key, clientv3.WithKeysOnly())
		})
		switch {
		case err != nil: // the store is away
		case len(resp.Kvs) == 0:
			return true
		default:
			rev = resp.Header.Revision
		}
	}
	return false
}

// entries returns the wanted keys and values; of two services with one key the later is used.
func (r *Registration) entries() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	entries := make(map[string]string, len(r.wanted))
	for _, s := range r.wanted {
		if s.TTL == 0 {
			s.TTL = int(r.ttl / time.Second)
		}
		// A struct of strings and numbers can always be encoded.
		value, _ := json.Marshal(s)
		entries[s.Key()] = string(value)
	}
	return entries
}

// changes returns the transaction that puts the wanted entries and deletes other published ones, unless one of
// the keys is written meanwhile: an earlier attempt without an answer may be executed later. A key that names
// another host is deleted first: the age of a key must be that of its host's registration.
func (r *Registration) changes(ctx context.Context, published map[string]struct{}, wanted map[string]string) (t Txn, err error) {
	for _, key := range slices.Sorted(maps.Keys(wanted)) { // in a fixed order, so that the same refusal is reported each time
		value := wanted[key]
		rev, err := r.withdrawOther(ctx, key, value)
		if err != nil {
			return t, err
		}
		t.If = append(t.If, AtRevision(key, rev))
		t.Puts = append(t.Puts, KV{Key: key, Value: []byte(value)})
	}
	for key := range published {
		if _, ok := wanted[key]; ok {
			continue
		}
		there, err := r.db.Get(ctx, key)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return t, err
		}
		t.If = append(t.If, AtRevision(key, there.ModRevision))
		t.Deletes = append(t.Deletes, key)
	}
	return t, nil
}

// publish executes changes on a lease, and returns their revision.
func (r *Registration) publish(ctx context.Context, on clientv3.LeaseID, t Txn) (rev int64, err error) {
	resp, err := Call(ctx, r.db, "register services", func(ctx context.Context, c *clientv3.Client) (*clientv3.TxnResponse, error) {
		return c.Txn(ctx).If(t.compares()...).Then(t.ops(clientv3.WithLease(on))...).Commit()
	})
	switch {
	case err != nil:
		return 0, err
	case !resp.Succeeded:
		return 0, fault.New(fault.Conflict, "services: their keys were written meanwhile")
	}
	return resp.Header.Revision, nil
}

// withdrawOther deletes a key if it names another host than value does. It returns the revision of the key's
// last write if it stays; 0: it is absent.
func (r *Registration) withdrawOther(ctx context.Context, key, value string) (rev int64, err error) {
	there, err := r.db.Get(ctx, key)
	switch {
	case fault.Is(err, fault.NotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case hostname(there.Value) == hostname([]byte(value)):
		return there.ModRevision, nil
	}
	_, _, err = r.db.Txn(ctx, Txn{If: []Guard{Unchanged(there)}, Deletes: []string{key}})
	return 0, err
}

// hostname returns the host of an entry; empty if it is corrupt.
func hostname(value []byte) string {
	var s Service
	_ = json.Unmarshal(value, &s) // a corrupt entry names no host
	return s.Hostname
}

// Services lists the registered instances of a service. Entries that are corrupt, or name no address, are logged at
// intervals and left out.
func (db *DB) Services(ctx context.Context, name string) ([]Service, error) {
	kvs, _, err := db.List(ctx, ServicePrefix+name+"/")
	if err != nil {
		return nil, err
	}
	services := make([]Service, 0, len(kvs))
	var corrupt []error
	for _, kv := range kvs {
		var s Service
		err := json.Unmarshal(kv.Value, &s)
		if err == nil && s.HostAddr == "" {
			err = errNoAddress
		}
		if err != nil {
			corrupt = append(corrupt, fmt.Errorf("%s: %w", kv.Key, err))
			continue
		}
		services = append(services, s)
	}
	if err := errors.Join(corrupt...); err != nil {
		if trouble, _ := db.unreadable.LoadOrStore(name, new(logging.Trouble)); trouble.(*logging.Trouble).IsNews(err, time.Now()) {
			db.log.WithError(err).Error("corrupt service entries skipped")
		}
	}
	return services, nil
}

var errNoAddress = errors.New("it names no address")

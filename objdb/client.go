package objdb

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/utils/fault"
)

// making is a client under construction, shared by all callers that wait for it. With a password this needs an
// answer of the store, for which no caller waits longer than its own context.
type making struct {
	made   chan struct{} // closed when one of the other fields is set
	client *clientv3.Client
	err    error
}

// Client returns the client, which is created at the first use. It is
// for the packages below objdb that watch; single requests use Call.
func (db *DB) Client(ctx context.Context) (*clientv3.Client, error) {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil, fault.New(fault.Unavailable, "etcd at %s: connection is closed", db.endpoints())
	}
	if client := db.client; client != nil {
		db.mu.Unlock()
		return client, nil
	}
	m := db.making
	if m == nil {
		m = &making{made: make(chan struct{})}
		db.making = m
		db.busy.Go(func() { db.connect(m) })
	}
	db.mu.Unlock()
	select {
	case <-m.made:
		return m.client, m.err
	case <-ctx.Done():
		return nil, db.explain("connect", ctx.Err())
	}
}

// connect creates the client, and stores it unless the connection was closed meanwhile.
func (db *DB) connect(m *making) {
	defer close(m.made)
	client, err := db.dialer.dial(db.settings)
	db.mu.Lock()
	defer db.mu.Unlock()
	db.making = nil
	switch {
	case err != nil:
		m.err = db.explain("connect", err)
	case db.closed:
		client.Close() // its error only says that its context has ended
		m.err = fault.New(fault.Unavailable, "etcd at %s: connection is closed", db.endpoints())
	default:
		m.client, db.client = client, client
		db.direct()
		db.busy.Go(func() { db.observe(db.ctx, client) })
	}
}

// settings returns the configuration of the client.
func (db *DB) settings() clientv3.Config {
	if db.route != nil {
		return db.dialer.to(db.Endpoints(), db.route.options()...)
	}
	return db.dialer.to(db.serving.chosen(db.Endpoints()), db.serving.options()...)
}

// redirect sets the present endpoints of the client.
func (db *DB) redirect() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.direct()
}

// direct is redirect for a caller that holds mu. There may be no client yet, or no more.
func (db *DB) direct() {
	switch {
	case db.client == nil:
	case db.route != nil:
		db.route.set(db.client, db.Endpoints())
	default:
		db.client.SetEndpoints(db.serving.chosen(db.Endpoints())...)
	}
}

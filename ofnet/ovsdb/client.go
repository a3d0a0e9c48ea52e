package ovsdb

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/logging"
	"github.com/contiv/netplugin/utils/retry"
)

// Pauses between attempts to connect: the server is on the same machine, and a restart is short.
const (
	firstPause  = 50 * time.Millisecond
	longestWait = 2 * time.Second
	handshake   = 10 * time.Second // limit for schema and snapshot
)

// Config of a Client.
type Config struct {
	Target   string // unix:PATH or tcp:HOST:PORT
	Database string // default Open_vSwitch
	Lock     string // required for writing, see lock.go; "": none. Letters, digits and underscores
	Log      *logrus.Entry
	// OnUpdate, which may be nil, is called after every change of the copy or of the connection, once per
	// transaction. It must not block.
	OnUpdate func()
}

// Client maintains a connection and a copy of the watched tables.
type Client struct {
	config Config
	tables []Watched

	version atomic.Uint64 // of the copy

	mu      sync.RWMutex // guards the copy, conn, lock and changed
	conn    *connection  // nil: not connected
	lock    lockState
	changed chan struct{}
}

// New returns a client for the tables; Run connects it.
func New(config Config, tables ...Watched) (*Client, error) {
	if config.Database == "" {
		config.Database = "Open_vSwitch"
	}
	if config.Log == nil {
		config.Log = logrus.WithField("component", "ovsdb")
	}
	c := &Client{config: config, tables: tables, changed: make(chan struct{})}
	for _, table := range tables {
		if err := table.bind(&c.mu); err != nil {
			return nil, fmt.Errorf("table %s: %w", table.tableName(), err)
		}
	}
	return c, nil
}

// Run maintains the connection until ctx ends.
func (c *Client) Run(ctx context.Context) error {
	wait := retry.NewPacer(firstPause, longestWait)
	var trouble logging.Trouble // the same error is logged only once in a while
	for {
		synced, err := c.session(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if synced {
			wait.Reset()
			trouble.Over()
		}
		level := logrus.DebugLevel
		if trouble.IsNews(err, time.Now()) {
			level = logrus.WarnLevel
		}
		c.config.Log.WithError(err).Log(level, "database is not connected")
		wait.Sleep(ctx)
	}
}

// session lasts as long as one connection; synced reports whether it received a snapshot.
func (c *Client) session(ctx context.Context) (synced bool, err error) {
	conn, err := dial(ctx, c.config.Target, connectionOptions{Notify: c.notified})
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if err := c.subscribe(ctx, conn); err != nil {
		return false, err
	}
	// Last, so that the copy has all that the previous owner wrote before this client owns the lock.
	if err := c.askLock(ctx, conn); err != nil {
		return false, err
	}
	c.connected(conn)
	defer c.connected(nil)
	select {
	case <-ctx.Done():
		return true, ctx.Err()
	case <-conn.Done():
		return true, conn.Err()
	}
}

// subscribe checks the schema, requests the tables and applies the snapshot.
func (c *Client) subscribe(ctx context.Context, conn *connection) error {
	ctx, cancel := context.WithTimeout(ctx, handshake)
	defer cancel()
	var schema databaseSchema
	if err := conn.Call(ctx, "get_schema", []any{c.config.Database}, &schema); err != nil {
		return fmt.Errorf("schema of %s: %w", c.config.Database, err)
	}
	requests := map[string]any{}
	for _, table := range c.tables {
		if err := table.check(schema); err != nil {
			return err
		}
		requests[table.tableName()] = map[string]any{"columns": table.columns()}
	}
	err := conn.call(ctx, "monitor", []any{c.config.Database, nil, requests}, func(raw json.RawMessage) error {
		return c.apply(raw, true)
	})
	if err != nil {
		return fmt.Errorf("monitor of %s: %w", c.config.Database, err)
	}
	return nil
}

// notified handles notifications and ignores unknown ones.
func (c *Client) notified(method string, params json.RawMessage) error {
	switch method {
	case "update":
		return c.updated(params)
	case "locked", "stolen":
		return c.lockNotified(method == "locked", params)
	}
	return nil
}

// updated handles the parameters [monitor, table-updates].
func (c *Client) updated(params json.RawMessage) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(params, &pair); err != nil {
		return err
	}
	if len(pair) != 2 {
		return fmt.Errorf("%d parameters instead of 2", len(pair))
	}
	return c.apply(pair[1], false)
}

// apply applies the changes of one transaction to the copy, then delivers the events.
func (c *Client) apply(raw json.RawMessage, snapshot bool) error {
	var updates map[string]map[UUID]rowUpdate
	if err := json.Unmarshal(raw, &updates); err != nil {
		return err
	}
	events, err := c.applyTables(updates, snapshot)
	if err != nil {
		return err
	}
	for _, deliver := range events {
		deliver()
	}
	c.tell()
	return nil
}

// applyTables changes all tables or, if the update of one is malformed, none.
func (c *Client) applyTables(updates map[string]map[UUID]rowUpdate, snapshot bool) (events []func(), err error) {
	var commits []func() []func()
	for _, table := range c.tables {
		of, ok := updates[table.tableName()]
		if !ok && !snapshot {
			continue
		}
		commit, err := table.decode(of, snapshot)
		if err != nil {
			return nil, err
		}
		commits = append(commits, commit)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, commit := range commits {
		events = append(events, commit()...)
	}
	c.version.Add(1)
	return events, nil
}

// Version changes with every change of the copy. What was read after a call is up to date as long as the version
// is the same.
func (c *Client) Version() uint64 { return c.version.Load() }

func (c *Client) connected(conn *connection) {
	c.mu.Lock()
	c.conn = conn
	if conn == nil && c.lock == lockHeld {
		c.lock = lockUnknown
	}
	c.mu.Unlock()
	c.tell()
}

// tell wakes waiting calls of Wait, and calls OnUpdate.
func (c *Client) tell() {
	c.mu.Lock()
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	if c.config.OnUpdate != nil {
		c.config.OnUpdate()
	}
}

// Connected reports whether the copy follows the server at present.
func (c *Client) Connected() bool { return c.current() != nil }

func (c *Client) current() *connection {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.conn
}

// Transact runs a transaction, see connection.Transact. It waits neither for a connection nor for the lock: without
// the lock the server refuses the transaction.
func (c *Client) Transact(ctx context.Context, ops ...Operation) ([]Result, error) {
	conn := c.current()
	if conn == nil {
		return nil, fault.New(fault.Unavailable, "ovsdb %s: not connected", c.config.Target)
	}
	if c.config.Lock != "" {
		return c.transactLocked(ctx, conn, ops)
	}
	return conn.Transact(ctx, c.config.Database, ops...)
}

// Wait blocks until the condition returns true or an error. The condition is evaluated at once and after every
// change of the copy or of the connection.
func (c *Client) Wait(ctx context.Context, condition func() (bool, error)) error {
	for {
		c.mu.RLock()
		changed := c.changed
		c.mu.RUnlock()
		if ok, err := condition(); ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

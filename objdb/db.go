package objdb

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/utils/fault"
)

// Backoff of operations that have to succeed eventually.
const (
	RetryFirst = 100 * time.Millisecond
	RetryMost  = 2 * time.Second
)

// pageSize limits the entries of one answer to a listing.
const pageSize = 1000

// DB is a connection to the store. It is safe for concurrent use.
type DB struct {
	cfg      Config
	log      *logrus.Entry
	dialer   dialer
	standing *standing
	route    *route                   // nil: all endpoints are used in turn
	serving  *serving                 // which of them serve
	at       atomic.Pointer[[]string] // the endpoints

	unreadable sync.Map // by name of a service: *logging.Trouble about entries that are skipped

	ctx  context.Context // ends with the connection
	stop context.CancelFunc
	busy sync.WaitGroup

	mu     sync.Mutex
	client *clientv3.Client // nil until the first successful use
	making *making          // the client under construction; nil: none
	closed bool
}

// KV is one key with its value and the revisions that created and last changed it.
type KV struct {
	Key            string
	Value          []byte
	CreateRevision int64
	ModRevision    int64
}

// Open validates the configuration and prepares the connection. It succeeds while the store is unreachable; a
// bad URL or certificate is an error.
func Open(cfg Config) (*DB, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	background, stop := context.WithCancel(context.Background())
	dialer, err := newDialer(background, cfg)
	if err != nil {
		stop()
		return nil, err
	}
	db := &DB{cfg: cfg, log: cfg.Log, dialer: dialer, standing: newStanding(cfg.Log, cfg.Now), ctx: background, stop: stop}
	db.at.Store(&cfg.Endpoints)
	db.serving = newServing(cfg.Log, func(ctx context.Context, url string) error { return serves(ctx, dialer.one(url)) })
	if cfg.OneAtATime {
		db.route = newRoute()
	}
	// With a password, creating the client needs an authentication by
	// the store; without one nothing is sent before the first request.
	if cfg.User == "" {
		if _, err := db.Client(background); err != nil {
			stop()
			return nil, err
		}
	}
	db.busy.Go(func() { db.watchHealth(background) })
	if db.route == nil {
		db.busy.Go(func() { db.serving.run(background, db.Endpoints, db.redirect) })
	}
	return db, nil
}

// Close closes the connection; every call in progress fails.
func (db *DB) Close() error {
	db.stop()
	defer db.busy.Wait()
	db.mu.Lock()
	defer db.mu.Unlock()
	db.closed = true
	if db.client == nil {
		return nil
	}
	client := db.client
	db.client = nil
	if err := client.Close(); err != nil && err != context.Canceled {
		return db.explain("close", err)
	}
	return nil
}

// Endpoints returns the URLs of the store, as configured or set since.
func (db *DB) Endpoints() []string { return slices.Clone(*db.at.Load()) }

// SetEndpoints sets other URLs of the same kind. Connections to remaining endpoints are kept.
func (db *DB) SetEndpoints(urls ...string) error {
	cfg := db.cfg
	if cfg.Endpoints = slices.Clone(urls); len(urls) > 0 {
		cfg.Endpoints = append(cfg.Endpoints, db.cfg.Endpoints[0]) // its scheme must not change
	}
	if err := cfg.check(); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	urls = slices.Clone(urls)
	db.at.Store(&urls)
	db.direct()
	return nil
}

// Log returns the log for everything that concerns this store.
func (db *DB) Log() *logrus.Entry { return db.log }

func (db *DB) endpoints() string { return strings.Join(db.Endpoints(), ", ") }

// Call makes one request to the store within the request timeout, and adds context to its error.
func Call[T any](ctx context.Context, db *DB, what string, call func(context.Context, *clientv3.Client) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, db.cfg.RequestTimeout)
	defer cancel()
	return longRequest(ctx, db, what, call)
}

// longRequest is Call with no time limit but that of ctx.
func longRequest[T any](ctx context.Context, db *DB, what string, call func(context.Context, *clientv3.Client) (T, error)) (T, error) {
	var none T
	client, err := db.Client(ctx)
	if err != nil {
		return none, err
	}
	q := db.standing.ask()
	answer, err := call(ctx, client)
	if err != nil {
		if kindOf(err) == fault.Unavailable {
			db.standing.probeSoon()
		}
		return none, db.explain(what, err)
	}
	db.standing.answered(q, answer)
	return answer, nil
}

// Ping succeeds when a quorum of the store answers.
func (db *DB) Ping(ctx context.Context) error {
	_, err := Call(ctx, db, "ping", func(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) {
		return c.Get(ctx, lockRoot, clientv3.WithCountOnly())
	})
	return err
}

// Get reads one key, linearizably.
func (db *DB) Get(ctx context.Context, key string) (KV, error) { return db.GetAt(ctx, key, 0) }

// GetAt reads one key at a revision; 0 is the present one.
func (db *DB) GetAt(ctx context.Context, key string, rev int64) (KV, error) {
	resp, err := Call(ctx, db, "get "+key, func(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) {
		return c.Get(ctx, key, clientv3.WithRev(rev))
	})
	if err != nil {
		return KV{}, err
	}
	if len(resp.Kvs) == 0 {
		return KV{}, KeyNotFound(key)
	}
	return KVOf(resp.Kvs[0]), nil
}

// List reads all keys below a prefix that ends in a slash, sorted,
// at one revision, which it returns. Without keys the list is empty.
func (db *DB) List(ctx context.Context, prefix string) ([]KV, int64, error) {
	return db.ListAt(ctx, prefix, 0)
}

// ListAt lists at a revision; 0 is the present one.
func (db *DB) ListAt(ctx context.Context, prefix string, rev int64) ([]KV, int64, error) {
	if err := CheckPrefix(prefix); err != nil {
		return nil, 0, err
	}
	var kvs []KV
	end := clientv3.GetPrefixRangeEnd(prefix)
	for from := prefix; ; {
		resp, err := Call(ctx, db, "list "+prefix, func(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) {
			return c.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize), clientv3.WithRev(rev))
		})
		if err != nil {
			return nil, 0, err
		}
		if rev == 0 {
			rev = resp.Header.Revision
		}
		for _, kv := range resp.Kvs {
			kvs = append(kvs, KVOf(kv))
		}
		if !resp.More || len(resp.Kvs) == 0 {
			return kvs, rev, nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// CheckPrefix refuses a prefix that does not end in a slash: it would match keys of other kinds whose name begins
// with it.
func CheckPrefix(prefix string) error {
	if !strings.HasSuffix(prefix, "/") {
		return fault.New(fault.Internal, "prefix %q: does not end in a slash", prefix)
	}
	return nil
}

// PrefixEnd returns the first key after all keys with a prefix.
func PrefixEnd(prefix string) string { return clientv3.GetPrefixRangeEnd(prefix) }

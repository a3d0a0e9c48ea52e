// Package testdb connects tests to a store and writes to it, bypassing the code under test.
package testdb

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// requestLimit is the timeout of a request where a test sets no other: on a machine that builds other tests
// meanwhile, the store may not run for seconds.
const requestLimit = time.Minute

// Open connects to a store for the time of the test.
func Open(t testing.TB, cfg objdb.Config) *objdb.DB {
	t.Helper()
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = requestLimit
	}
	if cfg.Log == nil {
		cfg.Log = testkit.Quiet()
	}
	db, err := objdb.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// At connects to the store at a URL.
func At(t testing.TB, url string) *objdb.DB {
	t.Helper()
	return Open(t, objdb.Config{Endpoints: []string{url}})
}

// New starts a store for this test and connects to it.
func New(t testing.TB) *objdb.DB {
	t.Helper()
	return At(t, testetcd.New(t))
}

// Put writes one key and returns the revision.
func Put(t testing.TB, db *objdb.DB, key, value string) int64 {
	t.Helper()
	return commit(t, db, objdb.Txn{Puts: []objdb.KV{{Key: key, Value: []byte(value)}}})
}

// Delete deletes keys at one revision, which it returns.
func Delete(t testing.TB, db *objdb.DB, keys ...string) int64 {
	t.Helper()
	return commit(t, db, objdb.Txn{Deletes: keys})
}

func commit(t testing.TB, db *objdb.DB, txn objdb.Txn) int64 {
	t.Helper()
	rev, _, err := db.Txn(context.Background(), txn)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

// Value returns the value of a key, which must exist.
func Value(t testing.TB, db *objdb.DB, key string) string {
	t.Helper()
	kv, err := db.Get(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(kv.Value)
}

// Compact compacts the store to a revision.
func Compact(t testing.TB, db *objdb.DB, rev int64) {
	t.Helper()
	client, err := db.Client(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Compact(context.Background(), rev, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
}

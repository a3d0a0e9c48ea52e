// Package storetest gives netmaster's tests a real etcd, started once per test
// program and emptied for every test, and a term with its ledger on it.
package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/etcdtest"
	"github.com/contiv/netplugin/test/testkit"
)

const root = "/contiv.io/"

// endpoint is the URL of the etcd of this test program.
var endpoint string

// Main runs the tests of a package with an etcd; call it from TestMain.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "storetest")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	options := []string{etcdtest.LargeTxns}
	flag.Parse() // for benchmarks, which wait for the disk
	if flag.Lookup("test.bench").Value.String() == "" {
		options = append(options, etcdtest.WithoutDisk)
	}
	store := etcdtest.New(dir, options...)
	defer store.Kill()
	if err := store.Start(ctx); err != nil {
		return fail(err)
	}
	endpoint = store.URL
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// Endpoint returns the URL of the etcd.
func Endpoint() string { return endpoint }

// Open connects to the emptied store. The store is compacted, or each list and each watch would cost more than in
// the test before; and leases of earlier tests are revoked, or they would count in this one.
func Open(t testing.TB) *objdb.DB {
	t.Helper()
	client := administer(t)
	defer client.Close()
	emptied, err := client.Delete(t.Context(), root, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	compact(t, client, emptied.Header.Revision)
	left, err := client.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range left.Leases {
		if _, err := client.Revoke(t.Context(), lease.ID); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			t.Fatal(err)
		}
	}
	return Connect(t)
}

// administer connects to the store without package objdb.
func administer(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Context: t.Context()})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// MovePeer changes the peer URL of the store's member until the test ends.
func MovePeer(t testing.TB, url string) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	listed, err := client.MemberList(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	member := listed.Members[0]
	move := func(ctx context.Context, urls []string) {
		if _, err := client.MemberUpdate(ctx, member.ID, urls); err != nil {
			t.Error(err)
		}
	}
	move(t.Context(), []string{url})
	t.Cleanup(func() {
		move(context.Background(), member.PeerURLs)
		client.Close()
	})
}

// requestLimit is the timeout of a request: on a machine that builds other tests meanwhile, the store may not run
// for seconds.
const requestLimit = time.Minute

// Connect opens another connection to the store as it is.
func Connect(t testing.TB) *objdb.DB {
	t.Helper()
	db, err := objdb.Open(objdb.Config{Endpoints: []string{endpoint}, RequestTimeout: requestLimit, Log: testkit.Quiet()})
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

// leaderTTL is longer than this process or the store may not run on a busy machine.
const leaderTTL = time.Minute

// Lead begins a term and opens its ledger; both end with the test.
func Lead(t testing.TB, db *objdb.DB) *ledger.Ledger {
	t.Helper()
	term, err := db.Campaign(t.Context(), objdb.CampaignConfig{Lock: mastercfg.LeaderLock, Value: "127.0.0.1:1", TTL: leaderTTL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), requestLimit)
		defer cancel()
		if err := term.Resign(ctx); err != nil {
			t.Error(err)
		}
	})
	ledger, err := master.Open(t.Context(), term, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ledger
}

// Compact compacts the store to its present revision, which it also does by itself from time to time.
func Compact(t testing.TB) {
	t.Helper()
	client := administer(t)
	defer client.Close()
	present, err := client.Get(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	compact(t, client, present.Header.Revision)
}

// compact compacts the store to a revision, unless it already is.
func compact(t testing.TB, client *clientv3.Client, revision int64) {
	t.Helper()
	_, err := client.Compact(t.Context(), revision, clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		t.Fatal(err)
	}
}

// Dump returns the content of the store, without locks and registry: key -> value.
func Dump(t testing.TB, db *objdb.DB) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, prefix := range []string{mastercfg.ModelRoot, mastercfg.StateRoot, mastercfg.GlobalRoot, mastercfg.OperRoot, mastercfg.AccessRoot} {
		kvs, _, err := db.List(t.Context(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range kvs {
			all[kv.Key] = string(kv.Value)
		}
	}
	return all
}

// Transactions returns the writes of the transactions after one revision and up to another, one line for each. It
// leaves out the term's own: if the store answers late, the term writes its candidate's key before it continues.
func Transactions(t testing.TB, after, upTo int64) []string {
	t.Helper()
	if after >= upTo {
		return nil
	}
	client := administer(t)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), requestLimit)
	defer cancel()
	var lines []string
	for answer := range client.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(after+1)) {
		if err := answer.Err(); err != nil {
			t.Fatal(err)
		}
		written := map[int64][]string{}
		for _, e := range answer.Events {
			if !strings.HasPrefix(string(e.Kv.Key), root+"lock/") {
				written[e.Kv.ModRevision] = append(written[e.Kv.ModRevision], fmt.Sprintf("%s %s", e.Type, e.Kv.Key))
			}
		}
		for _, revision := range slices.Sorted(maps.Keys(written)) {
			keys := written[revision]
			lines = append(lines, fmt.Sprintf("revision %d: %d keys, from %s to %s", revision, len(keys), keys[0], keys[len(keys)-1]))
		}
		if n := len(answer.Events); n > 0 && answer.Events[n-1].Kv.ModRevision >= upTo {
			return lines
		}
	}
	t.Fatalf("the watch ended before revision %d: %q", upTo, lines)
	return nil
}

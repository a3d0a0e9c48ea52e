package objdb

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

func TestMain(m *testing.M) {
	os.Exit(testetcd.Main(m, map[string]func([]string) error{"candidate": candidate, "member": member}))
}

// requestLimit is the timeout of a request where a test sets no other: on a machine that builds other tests
// meanwhile, the store may not run for seconds.
const requestLimit = time.Minute

// open connects to a store for the time of the test.
func open(t testing.TB, cfg Config) *DB {
	t.Helper()
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = requestLimit
	}
	if cfg.Log == nil {
		cfg.Log = testkit.Quiet()
	}
	db, err := Open(cfg)
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

// newDB starts a store for this test and connects to it.
func newDB(t testing.TB) *DB {
	t.Helper()
	return open(t, Config{Endpoints: []string{testetcd.New(t)}})
}

// put writes one key and returns the revision.
func put(t testing.TB, db *DB, key, value string) int64 {
	t.Helper()
	rev, _, err := db.Txn(context.Background(), Txn{Puts: []KV{{Key: key, Value: []byte(value)}}})
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func del(t testing.TB, db *DB, keys ...string) {
	t.Helper()
	if _, _, err := db.Txn(context.Background(), Txn{Deletes: keys}); err != nil {
		t.Fatal(err)
	}
}

func valueOf(t testing.TB, db *DB, key string) string {
	t.Helper()
	kv, err := db.Get(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(kv.Value)
}

// member is a process that runs a member of the store and campaigns for the lock.
func member(args []string) error {
	url, ttl, name, dir, cluster := args[0], args[1], args[2], args[3], args[4]
	peers := map[string]string{}
	for _, p := range strings.Split(cluster, ",") {
		n, u, _ := strings.Cut(p, "=")
		peers[n] = u
	}
	server, err := embedded.Start(context.Background(), embedded.Config{
		Dir: dir, Name: name, ClientURL: url, PeerURL: peers[name], Peers: peers, NoFsync: true, Log: testkit.Quiet(),
	})
	if err != nil {
		return err
	}
	<-server.Ready()
	fmt.Println("ready")
	return stand(url, ttl, name)
}

// candidate is a process that campaigns for the lock.
func candidate(args []string) error { return stand(args[0], args[1], "child") }

// stand campaigns, and then obeys the lines of its standard input until that ends.
func stand(url, lasting, value string) error {
	ttl, err := time.ParseDuration(lasting)
	if err != nil {
		return err
	}
	db, err := Open(Config{Endpoints: []string{url}, Log: testkit.Quiet()})
	if err != nil {
		return err
	}
	go func() {
		if _, err := db.Campaign(context.Background(), CampaignConfig{Lock: lock, Value: value, TTL: ttl}); err == nil {
			fmt.Println("leading")
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if in.Text() == "lead store" {
			if err := leadStore(db, url); err != nil {
				return err
			}
			fmt.Println("leads store")
		}
	}
	return nil
}

// leadStore moves the store's leadership to the member at url. It retries while the store elects a leader or
// answers late.
func leadStore(db *DB, url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return testkit.Poll(ctx, func() error {
		trying, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		return moveLeader(trying, db, url)
	})
}

// moveLeader is one attempt of leadStore.
func moveLeader(ctx context.Context, db *DB, url string) error {
	c, err := db.Client(ctx)
	if err != nil {
		return err
	}
	own, err := c.Status(ctx, url)
	if err != nil || own.Leader == own.Header.MemberId {
		return err
	}
	members, err := c.MemberList(ctx)
	if err != nil {
		return err
	}
	for _, m := range members.Members {
		if m.ID == own.Leader {
			c, err := clientv3.New(clientv3.Config{Endpoints: m.ClientURLs})
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.MoveLeader(ctx, own.Header.MemberId)
			return err
		}
	}
	return fmt.Errorf("leader %x is not a member", own.Leader)
}

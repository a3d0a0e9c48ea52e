package objdb

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

func TestReadingAndWriting(t *testing.T) {
	db, ctx := newDB(t), context.Background()

	_, err := db.Get(ctx, "/contiv.io/state/nets/none")
	if !fault.Is(err, fault.NotFound) || err.Error() != "key not found: /contiv.io/state/nets/none" {
		t.Errorf("absent key: %v", err)
	}

	rev := put(t, db, "/x/a", "1")
	kv, err := db.Get(ctx, "/x/a")
	if err != nil || string(kv.Value) != "1" || kv.ModRevision != rev || kv.CreateRevision != rev {
		t.Errorf("got %+v, %v after put at %d", kv, err, rev)
	}
}

func TestATransactionHappensOnlyIfAllGuardsHold(t *testing.T) {
	db, ctx := newDB(t), context.Background()
	put(t, db, "/x/a", "1")
	old, err := db.Get(ctx, "/x/a")
	if err != nil {
		t.Fatal(err)
	}
	put(t, db, "/x/a", "2")
	now, err := db.Get(ctx, "/x/a")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		guards []Guard
		holds  bool
	}{
		"no guards":                      {nil, true},
		"absent key is absent":           {[]Guard{Absent("/x/b")}, true},
		"present key is absent":          {[]Guard{Absent("/x/a")}, false},
		"present key is present":         {[]Guard{Present("/x/a")}, true},
		"absent key is present":          {[]Guard{Present("/x/b")}, false},
		"key unchanged":                  {[]Guard{Unchanged(now)}, true},
		"key changed":                    {[]Guard{Unchanged(old)}, false},
		"one of several fails":           {[]Guard{Unchanged(now), Present("/x/b")}, false},
		"range not newer":                {[]Guard{RangeNotAfter("/x/", "/x0", now.ModRevision)}, true},
		"range newer":                    {[]Guard{RangeNotAfter("/x/", "/x0", now.ModRevision-1)}, false},
		"empty range":                    {[]Guard{RangeNotAfter("/y/", "/y0", 0)}, true},
		"absent key at its revision":     {[]Guard{AtRevision("/x/b", 0)}, true},
		"same incarnation after changes": {[]Guard{SameIncarnation("/x/a", old.CreateRevision)}, true},
	} {
		_, ok, err := db.Txn(ctx, Txn{If: c.guards, Puts: []KV{{Key: "/t/" + name, Value: []byte("x")}}})
		if err != nil || ok != c.holds {
			t.Errorf("%s: holds %v, %v; want %v", name, ok, err, c.holds)
		}
		if _, err := db.Get(ctx, "/t/"+name); (err == nil) != c.holds {
			t.Errorf("%s: key written: %v", name, err)
		}
	}
}

func TestAListIsOfOneRevisionHoweverManyPages(t *testing.T) {
	db, ctx := newDB(t), context.Background()
	const many = 2*pageSize + 17
	for i := 0; i < many; i += 100 {
		var txn Txn
		for j := i; j < min(i+100, many); j++ {
			txn.Puts = append(txn.Puts, KV{Key: fmt.Sprintf("/x/%05d", j), Value: []byte("v")})
		}
		if _, _, err := db.Txn(ctx, txn); err != nil {
			t.Fatal(err)
		}
	}
	put(t, db, "/xy", "not below the prefix")

	kvs, rev, err := db.List(ctx, "/x/")
	if err != nil || len(kvs) != many {
		t.Fatalf("%d keys, %v; want %d", len(kvs), err, many)
	}
	del(t, db, "/x/02000")
	again, at, err := db.ListAt(ctx, "/x/", rev)
	if err != nil || len(again) != many || at != rev {
		t.Errorf("at revision %d: %d keys at %d, %v", rev, len(again), at, err)
	}
	for i, kv := range kvs {
		if want := fmt.Sprintf("/x/%05d", i); kv.Key != want {
			t.Fatalf("key %d is %s, want %s", i, kv.Key, want)
		}
	}

	if none, _, err := db.List(ctx, "/nothing/"); err != nil || len(none) != 0 {
		t.Errorf("empty prefix: %v, %v", none, err)
	}
	if _, _, err := db.List(ctx, "/x"); err == nil {
		t.Error("a prefix without slash was accepted")
	}
}

func TestAnOutageIsAnErrorInTimeThatNamesTheEndpoints(t *testing.T) {
	url := testkit.FreeURL()
	db := open(t, Config{Endpoints: []string{url}, RequestTimeout: 300 * time.Millisecond})
	// The limit of this client is kept, not the default. A busy machine may be late once.
	testkit.Eventually(t, time.Minute, "an error within five seconds", func() bool {
		began := time.Now()
		_, err := db.Get(context.Background(), "/x/a")
		if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), url) {
			t.Errorf("got %v", err)
		}
		return time.Since(began) < 5*time.Second
	})
}

func TestBadConfigurationsAreRefusedWithTheCause(t *testing.T) {
	for want, cfg := range map[string]Config{
		"none given":        {},
		"not an http":       {Endpoints: []string{"ftp://a:1"}},
		"host and port":     {Endpoints: []string{"http://a"}},
		"has a path":        {Endpoints: []string{"http://a:1/x"}},
		"no such file":      {Endpoints: []string{"https://a:1"}, CAFile: "/nonexistent/ca.pem"},
		"holds none":        {Endpoints: []string{"https://a:1"}, CAFile: "config.go"},
		"both or none":      {Endpoints: []string{"https://a:1"}, CertFile: "x"},
		"http and https":    {Endpoints: []string{"http://a:1", "https://b:1"}},
		"has no password":   {Endpoints: []string{"http://a:1"}, User: "root"},
		"client certificat": {Endpoints: []string{"https://a:1"}, CertFile: "config.go", KeyFile: "config.go"},
	} {
		if _, err := Open(cfg); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want ...%s...", cfg, err, want)
		}
	}
}

func TestTheStoreIsReachedAtTheURLsThatAreSetLast(t *testing.T) {
	url, gone := testetcd.New(t), testkit.FreeURL()
	db := open(t, Config{Endpoints: []string{gone}, RequestTimeout: 300 * time.Millisecond})
	if _, _, err := db.List(t.Context(), "/x/"); err == nil { // a connection attempt, which is repeated in the background
		t.Fatal("nobody listens there")
	}
	for _, bad := range [][]string{{}, {"https://127.0.0.1:1"}, {url, "https://127.0.0.1:1"}, {"127.0.0.1"}} {
		if err := db.SetEndpoints(bad...); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if got := db.Endpoints(); !slices.Equal(got, []string{gone}) {
		t.Errorf("after URLs that were refused: %q", got)
	}
	if err := db.SetEndpoints(url); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, "the store is reached", func() bool {
		_, _, err := db.List(t.Context(), "/x/")
		return err == nil
	})
	if got := db.Endpoints(); !slices.Equal(got, []string{url}) {
		t.Errorf("got %q", got)
	}
}

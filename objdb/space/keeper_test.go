package space_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/objdb/space"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

const quota = 8 << 20

// newStore is an embedded member with a small quota.
func newStore(t *testing.T) *objdb.DB {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := embedded.Start(ctx, embedded.Config{
		Dir: t.TempDir(), Name: "alone", ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL(), Quota: quota, Log: testkit.Quiet(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-s.Ready():
	case <-ctx.Done():
		t.Fatal("member is not ready")
	}
	db, err := objdb.Open(objdb.Config{Endpoints: s.ClientURLs(), Log: testkit.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// keep looks after a store all the time.
func keep(t *testing.T, store space.Store, member string) *space.Keeper {
	t.Helper()
	k := space.New(space.Config{Store: store, Member: member, Every: time.Millisecond, Log: testkit.Quiet()})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return k
}

// recorder notes what was asked of a store, and whether anything was done to it.
type recorder struct {
	*objdb.DB
	asked atomic.Int64
	acted atomic.Bool
}

func (r *recorder) Space(ctx context.Context) ([]objdb.Space, error) {
	r.asked.Add(1)
	return r.DB.Space(ctx)
}

func (r *recorder) Compact(ctx context.Context) error {
	r.acted.Store(true)
	return r.DB.Compact(ctx)
}

func (r *recorder) Defragment(ctx context.Context, url string) error {
	r.acted.Store(true)
	return r.DB.Defragment(ctx, url)
}

// refuses tells whether a keeper that has seen the present state refuses.
func (r *recorder) refuses(t *testing.T, k *space.Keeper) bool {
	t.Helper()
	before := r.asked.Load()
	testkit.Eventually(t, 10*time.Second, "the keeper looks", func() bool { return r.asked.Load() >= before+2 })
	return k.Admit() != nil
}

const valueSize = 64 << 10

// put writes a large value under a key.
func put(ctx context.Context, db *objdb.DB, key string) error {
	_, _, err := db.Txn(ctx, objdb.Txn{Puts: []objdb.KV{{Key: key, Value: []byte(strings.Repeat("x", valueSize))}}})
	return err
}

// fill puts keys until the store refuses or enough says so.
func fill(t *testing.T, db *objdb.DB, key func(i int) string, enough func() bool) error {
	t.Helper()
	for i := range 4 * quota / valueSize {
		if enough() {
			return nil
		}
		if err := put(t.Context(), db, key(i)); err != nil {
			return err
		}
	}
	return errWritten
}

var errWritten = errors.New("wrote four times the quota")

func never() bool { return false }

// isFull tells whether the alarm is raised, by writing.
func isFull(t *testing.T, db *objdb.DB) bool { return put(t.Context(), db, "/x/probe") != nil }

func TestAStoreThatIsFullOfHistoryMakesRoomForItself(t *testing.T) {
	db := newStore(t)
	keep(t, db, db.Endpoints()[0])
	if err := fill(t, db, func(int) string { return "/x/same" }, never); !errors.Is(err, errWritten) {
		t.Errorf("while history was written: %v", err)
	}
}

func TestAnAlarmIsTakenBackOnceThereIsRoom(t *testing.T) {
	db := newStore(t)
	if err := fill(t, db, func(i int) string { return fmt.Sprint("/x/", i) }, never); !strings.Contains(fmt.Sprint(err), "space exceeded") {
		t.Fatalf("the store was not filled: %v", err)
	}
	kvs, _, err := db.List(t.Context(), "/x/")
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range kvs {
		if _, _, err := db.Txn(t.Context(), objdb.Txn{Deletes: []string{kv.Key}}); err != nil {
			t.Fatal(err)
		}
	}
	if !isFull(t, db) {
		t.Fatal("deletions alone have made room")
	}
	k := keep(t, db, db.Endpoints()[0])
	testkit.Eventually(t, 20*time.Second, "the store takes writes again", func() bool { return !isFull(t, db) })
	testkit.Eventually(t, 5*time.Second, "and nothing is refused", func() bool { return k.Admit() == nil })
}

func TestNothingIsAddedToAFullStoreWhileDeletionsAndElectionsGoOn(t *testing.T) {
	db := newStore(t)
	store := &recorder{DB: db}
	k := keep(t, store, db.Endpoints()[0])
	if err := fill(t, db, func(i int) string { return fmt.Sprint("/x/", i) }, func() bool { return store.refuses(t, k) }); err != nil {
		t.Fatalf("the store was full before the keeper said so: %v", err)
	}
	if err := k.Admit(); !fault.Is(err, fault.Exhausted) || !strings.Contains(err.Error(), "of 8 MiB") {
		t.Errorf("refused with %v", err)
	}
	if u := k.Usage(); !u.Full || u.Quota != quota || u.Size > quota || u.InUse < quota*8/10 {
		t.Errorf("usage is %+v", u)
	}
	if _, _, err := db.Txn(t.Context(), objdb.Txn{Deletes: []string{"/x/1"}, Puts: []objdb.KV{{Key: "/x/2", Value: []byte("rewritten")}}}); err != nil {
		t.Errorf("deletion: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	term, err := db.Campaign(ctx, objdb.CampaignConfig{Lock: "test", Value: "me", TTL: 5 * time.Second})
	if err != nil {
		t.Fatalf("election: %v", err)
	}
	if err := term.Resign(ctx); err != nil {
		t.Error(err)
	}
}

func TestAStoreOfAnotherOperatorIsOnlyObserved(t *testing.T) {
	store := &recorder{DB: newStore(t)}
	k := keep(t, store, "")
	if err := fill(t, store.DB, func(int) string { return "/x/same" }, func() bool { return store.refuses(t, k) }); err != nil {
		t.Error(err)
	}
	if store.acted.Load() {
		t.Error("the keeper has acted on the store")
	}
}

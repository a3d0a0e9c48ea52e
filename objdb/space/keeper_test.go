package space_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/objdb/space"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

const quota = 8 << 20

// newStore is an embedded member with a small quota.
func newStore(t *testing.T) *objdb.DB {
	t.Helper()
	return testdb.At(t, testetcd.NewSmall(t, quota))
}

// keep looks after a store all the time.
func keep(t *testing.T, store space.Store, member string) *space.Keeper {
	t.Helper()
	k := space.New(space.Config{Store: store, Member: member, Every: time.Millisecond, Log: testkit.Quiet()})
	testetcd.Run(t, k.Run)
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
	testkit.Eventually(t, time.Minute, "the keeper looks", func() bool { return r.asked.Load() >= before+2 })
	return k.Admit() != nil
}

// What put writes: values of a size at which the store's file grows evenly.
const (
	values    = 64
	valueSize = 4 << 10
)

// put writes values under a prefix.
func put(t *testing.T, db *objdb.DB, prefix string) error {
	var txn objdb.Txn
	for i := range values {
		txn.Puts = append(txn.Puts, objdb.KV{Key: fmt.Sprintf("%s/%d", prefix, i), Value: make([]byte, valueSize)})
	}
	_, _, err := db.Txn(t.Context(), txn)
	return err
}

// grow is put, and returns when the store counts what was written. It does ten
// times a second; a quota as small as here can be written in less.
func grow(t *testing.T, db *objdb.DB, prefix string) error {
	t.Helper()
	inUse := func() int64 {
		members, err := db.Space(t.Context())
		if len(members) == 0 {
			t.Fatal(err)
		}
		return members[0].InUse
	}
	before := inUse()
	if err := put(t, db, prefix); err != nil {
		return err
	}
	testkit.Eventually(t, time.Minute, "what was written counts", func() bool { return inUse() != before })
	return nil
}

// numbered is a prefix of its own for each i.
func numbered(i int) string { return fmt.Sprint("/x/", i) }

// raiseAlarm writes until the store refuses, and deletes everything again.
func raiseAlarm(t *testing.T, db *objdb.DB) {
	t.Helper()
	var err error
	for i := 0; err == nil; i++ {
		err = put(t, db, numbered(i))
	}
	if !strings.Contains(err.Error(), "space exceeded") {
		t.Fatalf("the store was not filled: %v", err)
	}
	kvs, _, err := db.List(t.Context(), "/x/")
	if err != nil {
		t.Fatal(err)
	}
	for some := range slices.Chunk(kvs, 500) {
		var keys []string
		for _, kv := range some {
			keys = append(keys, kv.Key)
		}
		testdb.Delete(t, db, keys...)
	}
	if put(t, db, "/x/probe") == nil {
		t.Fatal("deletions alone have made room")
	}
}

// takesWrites waits until the alarm is taken back for good.
func takesWrites(t *testing.T, db *objdb.DB, keepers ...*space.Keeper) {
	t.Helper()
	testkit.Eventually(t, time.Minute, "the store takes writes again", func() bool { return put(t, db, "/x/probe") == nil })
	for _, k := range keepers {
		testkit.Eventually(t, time.Minute, "nothing is refused", func() bool { return k.Admit() == nil })
	}
}

func TestAStoreThatIsFullOfHistoryMakesRoomForItself(t *testing.T) {
	t.Parallel() // it mostly waits
	db := newStore(t)
	keep(t, db, db.Endpoints()[0])
	for range 3 * quota / 2 / (values * valueSize) {
		if err := grow(t, db, "/x/same"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnAlarmIsTakenBackOnceThereIsRoom(t *testing.T) {
	t.Parallel() // it mostly waits
	db := newStore(t)
	raiseAlarm(t, db)
	takesWrites(t, db, keep(t, db, db.Endpoints()[0]))
}

// Somebody reads the store as it was, a backup for example: what a compaction
// frees counts as used until that is over.
func TestRoomThatAReaderKeepsIsTriedForAgain(t *testing.T) {
	t.Parallel() // it mostly waits
	store := &recorder{DB: newStore(t)}
	raiseAlarm(t, store.DB)
	client, err := store.Client()
	if err != nil {
		t.Fatal(err)
	}
	reading, done := context.WithCancel(t.Context())
	defer done()
	backup, err := client.Snapshot(reading)
	if err != nil {
		t.Fatal(err)
	}
	defer backup.Close()
	if _, err := backup.Read(make([]byte, 1)); err != nil { // it has begun
		t.Fatal(err)
	}
	k := keep(t, store, store.Endpoints()[0])
	testkit.Eventually(t, time.Minute, "the keeper has tried", store.acted.Load)
	if !store.refuses(t, k) {
		t.Error("there is room although somebody reads")
	}
	done()
	takesWrites(t, store.DB, k)
}

func TestTheLeadingMemberMakesRoomForAll(t *testing.T) {
	t.Parallel() // it mostly waits
	var urls []string
	for _, m := range testetcd.NewMembers(t, 3, quota) {
		urls = append(urls, m.ClientURLs()...)
	}
	db := testdb.Open(t, objdb.Config{Endpoints: urls})
	raiseAlarm(t, db)
	var keepers []*space.Keeper
	for _, url := range urls {
		keepers = append(keepers, keep(t, db, url))
	}
	takesWrites(t, db, keepers...)
	members, err := db.Space(t.Context())
	if err != nil || len(members) != 3 {
		t.Fatalf("members %+v, %v", members, err)
	}
	for _, m := range members {
		if m.Size > quota/2 || m.Full {
			t.Errorf("after that: %+v", m)
		}
	}
}

func TestNothingIsAddedToAFullStoreWhileDeletionsAndElectionsGoOn(t *testing.T) {
	t.Parallel() // it mostly waits
	db := newStore(t)
	store := &recorder{DB: db}
	k := keep(t, store, db.Endpoints()[0])
	for i := 0; !store.refuses(t, k); i++ {
		if err := grow(t, db, numbered(i)); err != nil {
			t.Fatalf("the store was full before the keeper said so: %v", err)
		}
	}
	if err := k.Admit(); !fault.Is(err, fault.Exhausted) || !strings.Contains(err.Error(), "of 8 MiB") {
		t.Errorf("refused with %v", err)
	}
	if u := k.Usage(); !u.Full || u.Quota != quota || u.Size > quota || u.InUse < quota*8/10 {
		t.Errorf("usage is %+v", u)
	}
	if _, _, err := db.Txn(t.Context(), objdb.Txn{Deletes: []string{"/x/1/0"}, Puts: []objdb.KV{{Key: "/x/2/0", Value: []byte("rewritten")}}}); err != nil {
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

// A member that was added and never started tells nothing. The store does without it, and fills up all the same.
func TestAMemberThatDoesNotAnswerKeepsNobodyFromLooking(t *testing.T) {
	t.Parallel() // it mostly waits
	store := &recorder{DB: newStore(t)}
	client, err := store.Client()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.MemberAddAsLearner(t.Context(), []string{"http://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	k := keep(t, store, store.Endpoints()[0])
	for i := 0; !store.refuses(t, k); i++ {
		if err := grow(t, store.DB, numbered(i)); err != nil {
			t.Fatalf("the store was full before the keeper said so: %v", err)
		}
	}
	if members, err := store.Space(t.Context()); err == nil || len(members) != 1 {
		t.Errorf("%d members have answered, error %v", len(members), err)
	}
}

func TestAStoreOfAnotherOperatorIsOnlyObserved(t *testing.T) {
	t.Parallel() // it mostly waits
	store := &recorder{DB: newStore(t)}
	k := keep(t, store, "")
	for !store.refuses(t, k) {
		if err := grow(t, store.DB, "/x/same"); err != nil {
			t.Fatal(err)
		}
	}
	if store.acted.Load() {
		t.Error("the keeper has acted on the store")
	}
}

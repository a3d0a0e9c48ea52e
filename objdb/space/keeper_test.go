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
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/objdb/space"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

const quota = 8 << 20

// newStore starts an embedded member with a small quota.
func newStore(t *testing.T) *objdb.DB {
	t.Helper()
	return testdb.At(t, testetcd.NewSmall(t, quota))
}

// keep runs a keeper of a store until the test ends.
func keep(t *testing.T, store space.Store, member space.Member) *space.Keeper {
	t.Helper()
	k := space.New(space.Config{Store: store, Member: member, Every: time.Millisecond, Log: testkit.Quiet()})
	testetcd.Run(t, k.Run)
	return k
}

// alone is a single member.
type alone string

func (a alone) URL() string                             { return string(a) }
func (alone) Missing(context.Context) ([]string, error) { return nil, nil }
func (alone) Turn(context.Context) (func(), error)      { return func() {}, nil }

// only returns the only member of a store.
func only(db *objdb.DB) alone { return alone(db.Endpoints()[0]) }

// oneOf is one of several members.
type oneOf struct {
	*embedded.Server
	db *objdb.DB
}

func (m oneOf) URL() string { return m.ClientURLs()[0] }

func (m oneOf) Turn(ctx context.Context) (func(), error) {
	term, err := m.db.Campaign(ctx, objdb.CampaignConfig{Lock: "member", Value: m.URL(), TTL: time.Minute})
	if err != nil {
		return nil, err
	}
	return func() { _ = term.Resign(context.WithoutCancel(ctx)) }, nil
}

// recorder records what a store was asked for, and whether it was changed.
type recorder struct {
	*objdb.DB
	asked atomic.Int64
	acted atomic.Bool
	anew  atomic.Int64 // defragmentations requested
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
	r.anew.Add(1)
	return r.DB.Defragment(ctx, url)
}

// refuses reports whether a keeper refuses writes once it has seen the present state.
func (r *recorder) refuses(t *testing.T, k *space.Keeper) bool {
	t.Helper()
	before := r.asked.Load()
	testkit.Eventually(t, time.Minute, "the keeper looks", func() bool { return r.asked.Load() >= before+2 })
	return k.Admit() != nil
}

// What put writes: values of a size with which the store's file grows evenly.
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

// grow is put, and returns when the store's size includes the write. The store updates it ten times a second; a
// quota as small as here can be filled in less.
func grow(t *testing.T, db *objdb.DB, prefix string) error {
	t.Helper()
	before := inUse(t, db)
	if err := put(t, db, prefix); err != nil {
		return err
	}
	testkit.Eventually(t, time.Minute, "what was written counts", func() bool { return inUse(t, db) != before })
	return nil
}

func inUse(t *testing.T, db *objdb.DB) int64 {
	t.Helper()
	members, err := db.Space(t.Context())
	if len(members) == 0 {
		t.Fatal(err)
	}
	return members[0].InUse
}

// rewrite writes the same values until done. After each write it waits until the store has updated its size, or half a
// second, as the new size may equal the old one.
func rewrite(t *testing.T, db *objdb.DB, what string, done func() bool) {
	t.Helper()
	testkit.Eventually(t, 2*time.Minute, what, func() bool {
		before, began := inUse(t, db), time.Now()
		if err := put(t, db, "/x/same"); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		testkit.Eventually(t, time.Minute, "what was written counts", func() bool {
			return done() || inUse(t, db) != before || time.Since(began) > 500*time.Millisecond
		})
		return done()
	})
}

// numbered returns a separate prefix for each i.
func numbered(i int) string { return fmt.Sprint("/x/", i) }

// raiseAlarm writes until the store refuses writes, and deletes everything again.
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

// takesWrites waits until the alarm is disarmed for good.
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
	keep(t, db, only(db))
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
	takesWrites(t, db, keep(t, db, only(db)))
}

// A reader, a backup for example, holds an old state of the store: what a compaction frees counts as used until it
// ends.
func TestRoomThatAReaderKeepsIsTriedForAgain(t *testing.T) {
	t.Parallel() // it mostly waits
	store := &recorder{DB: newStore(t)}
	raiseAlarm(t, store.DB)
	client, err := store.Client(t.Context())
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
	if _, err := backup.Read(make([]byte, 1)); err != nil { // has begun
		t.Fatal(err)
	}
	k := keep(t, store, only(store.DB))
	testkit.Eventually(t, time.Minute, "the keeper has tried", store.acted.Load)
	if !store.refuses(t, k) {
		t.Error("there is room although somebody reads")
	}
	done()
	takesWrites(t, store.DB, k)
}

func TestEachMemberMakesRoomForItselfOnceTheAlarmIsRaised(t *testing.T) {
	t.Parallel() // it mostly waits
	members := testetcd.NewMembers(t, 3, quota)
	db := testdb.At(t, members[0].ClientURLs()[0])
	raiseAlarm(t, db)
	var keepers []*space.Keeper
	for _, m := range members {
		keepers = append(keepers, keep(t, private{recorder: &recorder{DB: testdb.At(t, m.ClientURLs()[0])}}, oneOf{m, db}))
	}
	takesWrites(t, db, keepers...)
	testkit.Eventually(t, time.Minute, "every file is written anew", func() bool {
		all, err := db.Space(t.Context())
		return err == nil && len(all) == 3 && !slices.ContainsFunc(all, func(m objdb.Space) bool { return m.Size > quota/2 || m.Full })
	})
}

// private is a store of which each netmaster reaches only its own member, as in Kubernetes.
type private struct {
	*recorder
	away *overlap
}

func (p private) Space(ctx context.Context) ([]objdb.Space, error) {
	all, err := p.recorder.Space(ctx)
	return slices.DeleteFunc(all, func(m objdb.Space) bool { return m.URL != p.Endpoints()[0] }), err
}

func (p private) Defragment(ctx context.Context, url string) error {
	if p.away != nil {
		defer p.away.begin()()
	}
	return p.recorder.Defragment(ctx, url)
}

// overlap counts defragmentations, and records whether two ran at the same time.
type overlap struct {
	now, all atomic.Int64
	twice    atomic.Bool
}

func (o *overlap) begin() (end func()) {
	o.all.Add(1)
	if o.now.Add(1) > 1 {
		o.twice.Store(true)
	}
	<-time.After(300 * time.Millisecond) // time for another one to begin
	return func() { o.now.Add(-1) }
}

func TestMembersWriteTheirFilesAnewOneAfterTheOther(t *testing.T) {
	t.Parallel() // it mostly waits
	members := testetcd.NewMembers(t, 3, quota)
	db := testdb.At(t, members[0].ClientURLs()[0])
	var away overlap
	for _, m := range members {
		store := private{&recorder{DB: testdb.At(t, m.ClientURLs()[0])}, &away}
		keep(t, store, oneOf{m, store.DB})
	}
	rewrite(t, db, "all members have written their files anew", func() bool { return away.all.Load() >= 3 })
	if away.twice.Load() {
		t.Error("two members were away at once")
	}
}

func TestNoFileIsWrittenAnewWhileAMemberIsMissing(t *testing.T) {
	t.Parallel() // it mostly waits
	member := testetcd.NewMembers(t, 1, quota)[0]
	store := &recorder{DB: testdb.At(t, member.ClientURLs()[0])}
	addLearner(t, store.DB)
	k := keep(t, store, oneOf{member, store.DB})
	rewrite(t, store.DB, "room is made", store.acted.Load)
	for range 3 {
		store.refuses(t, k) // it has checked again
	}
	if n := store.anew.Load(); n > 0 {
		t.Errorf("%d times", n)
	}
}

func TestNothingIsAddedToAFullStoreWhileDeletionsAndElectionsGoOn(t *testing.T) {
	t.Parallel() // it mostly waits
	db := newStore(t)
	store := &recorder{DB: db}
	k := keep(t, store, only(db))
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

// addLearner adds a member that is never started.
func addLearner(t *testing.T, db *objdb.DB) {
	t.Helper()
	client, err := db.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.MemberAddAsLearner(t.Context(), []string{"http://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
}

// A member that was added and never started does not report its space. The store works without it, and can still
// become full.
func TestAMemberThatDoesNotAnswerKeepsNobodyFromLooking(t *testing.T) {
	t.Parallel() // it mostly waits
	store := &recorder{DB: newStore(t)}
	addLearner(t, store.DB)
	k := keep(t, store, only(store.DB))
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
	k := keep(t, store, nil)
	for !store.refuses(t, k) {
		if err := grow(t, store.DB, "/x/same"); err != nil {
			t.Fatal(err)
		}
	}
	if store.acted.Load() {
		t.Error("the keeper has acted on the store")
	}
}

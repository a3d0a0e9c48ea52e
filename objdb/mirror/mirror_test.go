package mirror

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// replica is a receiver that rebuilds the prefix from batches.
type replica struct {
	t         *testing.T
	mu        sync.Mutex
	state     map[string]string
	batches   []Batch
	snapshots int
}

func (r *replica) deliver(b Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.Snapshot {
		r.snapshots++
		if len(r.batches) > 0 {
			r.t.Error("a snapshot that is not the first batch")
		}
	}
	for _, e := range b.Events {
		if _, ok := r.state[e.Key]; e.Value == nil && !ok {
			r.t.Errorf("deletion of %s, which is not there", e.Key)
		}
		if e.Value == nil {
			delete(r.state, e.Key)
		} else {
			r.state[e.Key] = string(e.Value)
		}
	}
	r.batches = append(r.batches, b)
}

func (r *replica) get(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state[key]
}

func (r *replica) contents() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]string{}
	for k, v := range r.state {
		all[k] = v
	}
	return all
}

// follow runs a mirror of /m/ for the time of the test.
func follow(t *testing.T, db *objdb.DB) (*Mirror, *replica) {
	t.Helper()
	r := &replica{t: t, state: map[string]string{}}
	m := New(db, "/m/", r.deliver)
	testetcd.Run(t, func(ctx context.Context) {
		if err := m.Run(ctx); err != ctx.Err() {
			t.Errorf("mirror ended with %v", err)
		}
	})
	testkit.Eventually(t, time.Minute, "mirror is in step", func() bool { return m.Synced() && m.Connected() })
	return m, r
}

func waitRevision(t *testing.T, m *Mirror, rev int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := m.WaitRevision(ctx, rev); err != nil {
		t.Fatal(err)
	}
}

func TestAMirrorStartsWithASnapshotAndGoesOnWithEachRevision(t *testing.T) {
	db := testdb.New(t)
	testdb.Put(t, db, "/m/a", "1")
	testdb.Put(t, db, "/mm/other", "not below the prefix")
	m, r := follow(t, db)
	rev, _, err := db.Txn(context.Background(), objdb.Txn{
		Puts:    []objdb.KV{{Key: "/m/b", Value: []byte("2")}, {Key: "/m/c", Value: []byte{}}},
		Deletes: []string{"/m/a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	waitRevision(t, m, rev)

	if want := map[string]string{"/m/b": "2", "/m/c": ""}; !cmp.Equal(r.contents(), want) {
		t.Error(cmp.Diff(want, r.contents()))
	}
	if len(r.batches) != 2 || !r.batches[0].Snapshot || r.batches[1].Snapshot || r.batches[1].Revision != rev || len(r.batches[1].Events) != 3 {
		t.Errorf("batches are %+v", r.batches)
	}
}

// Keys written and deleted before the listing, after its newest key, must not be delivered: an agent that starts
// would apply rules that had been removed. There are more of them than the store sends in one response.
func TestAMirrorDoesNotGoBackToBeforeItsListing(t *testing.T) {
	db := testdb.New(t)
	testdb.Put(t, db, "/m/a", "1")
	change := func(txn objdb.Txn) {
		t.Helper()
		if _, _, err := db.Txn(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
	}
	const transient = 600
	key := func(i int) string { return fmt.Sprintf("/m/gone%d", i) }
	for i := range transient {
		testdb.Put(t, db, key(i), "x")
	}
	for i := range transient {
		change(objdb.Txn{Deletes: []string{key(i)}})
	}
	m, r := follow(t, db)
	change(objdb.Txn{Puts: []objdb.KV{{Key: key(0), Value: []byte("back")}}})
	waitRevision(t, m, testdb.Put(t, db, "/m/b", "2"))
	if want := map[string]string{"/m/a": "1", "/m/b": "2", key(0): "back"}; !cmp.Equal(r.contents(), want) {
		t.Error(cmp.Diff(want, r.contents()))
	}
	if len(r.batches) != 3 {
		t.Errorf("%d batches: first %+v, then %+v", len(r.batches), r.batches[0], r.batches[1])
	}
}

// A restored store has written two keys again at one revision, and one of them once more since.
func TestARevisionThatWasWrittenAnewIsToldWhole(t *testing.T) {
	db := testdb.New(t)
	first := testdb.Put(t, db, "/m/a", "1")
	r := &replica{t: t, state: map[string]string{"/m/a": "1"}}
	m := New(db, "/m/", r.deliver)
	kvs, _, err := db.List(t.Context(), "/m/")
	if err != nil {
		t.Fatal(err)
	}
	const ahead = 20 // revisions by which the mirror was ahead before the restore
	m.Seed(kvs, first+ahead)
	rev, _, err := db.Txn(t.Context(), objdb.Txn{Puts: []objdb.KV{{Key: "/m/group", Value: []byte("x")}, {Key: "/m/rule", Value: []byte("x")}}})
	if err != nil {
		t.Fatal(err)
	}
	for range ahead {
		testdb.Put(t, db, "/elsewhere", "x")
	}
	testdb.Put(t, db, "/m/group", "y")
	put := func(key string) *clientv3.Event {
		return &clientv3.Event{Kv: &mvccpb.KeyValue{Key: []byte(key), Value: []byte("x"), ModRevision: rev, CreateRevision: rev}}
	}
	events := []*clientv3.Event{put("/m/group"), put("/m/rule")}
	past, err := m.past(t.Context(), events)
	if err != nil {
		t.Fatal(err)
	}
	m.apply(events, past)
	if len(r.batches) != 1 || len(r.batches[0].Events) != 2 {
		t.Errorf("of two keys of one revision are told: %+v", r.batches)
	}
}

func TestAnEmptyPrefixGivesAnEmptySnapshot(t *testing.T) {
	_, r := follow(t, testdb.New(t))
	if len(r.batches) != 1 || !r.batches[0].Snapshot || len(r.batches[0].Events) != 0 {
		t.Errorf("batches are %+v", r.batches)
	}
}

func TestWaitingForARevisionThatDidNotTouchThePrefixEnds(t *testing.T) {
	db := testdb.New(t)
	testdb.Put(t, db, "/m/a", "1")
	m, _ := follow(t, db)
	for i := range 3 {
		rev := testdb.Put(t, db, "/elsewhere", fmt.Sprint(i))
		began := time.Now()
		waitRevision(t, m, rev)
		if took := time.Since(began); took > 15*time.Second { // the store itself notifies after 20
			t.Errorf("took %s", took)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := m.WaitRevision(ctx, m.Revision()+1000); err == nil {
		t.Error("a future revision was reached")
	}
}

func TestAMirrorSurvivesARestartOfTheStore(t *testing.T) {
	t.Parallel() // it mostly waits
	p := testetcd.NewProcess(t)
	db := testdb.Open(t, objdb.Config{Endpoints: []string{p.URL}, RequestTimeout: time.Second})
	testdb.Put(t, db, "/m/a", "1")
	m, r := follow(t, db)

	p.Kill()
	testkit.Eventually(t, time.Minute, "mirror notices the outage", func() bool { return !m.Connected() })
	if !m.Synced() || r.get("/m/a") != "1" {
		t.Error("the outage cost the mirror its state")
	}
	p.Start()
	waitRevision(t, m, testdb.Put(t, db, "/m/a", "2"))
	if r.get("/m/a") != "2" || r.snapshots != 1 {
		t.Errorf("a is %q after %d snapshots", r.get("/m/a"), r.snapshots)
	}
	testkit.Eventually(t, time.Minute, "connected again", m.Connected)
}

func TestAMirrorMakesUpForCompactedRevisions(t *testing.T) {
	t.Parallel() // it mostly waits
	p := testetcd.NewProcess(t)
	way := testetcd.NewProxy(t, p.URL)
	db := testdb.Open(t, objdb.Config{Endpoints: []string{p.URL}})
	testdb.Put(t, db, "/m/changed", "1")
	testdb.Put(t, db, "/m/deleted", "1")
	testdb.Put(t, db, "/m/same", "1")
	m, r := follow(t, testdb.Open(t, objdb.Config{Endpoints: []string{way.URL}, RequestTimeout: time.Second}))

	way.Cut()
	testkit.Eventually(t, time.Minute, "mirror is cut off", func() bool { return !m.Connected() })
	testdb.Put(t, db, "/m/changed", "2")
	testdb.Put(t, db, "/m/added", "2")
	testdb.Put(t, db, "/m/passing", "2")
	testdb.Delete(t, db, "/m/passing")
	testdb.Compact(t, db, testdb.Delete(t, db, "/m/deleted"))
	last := testdb.Put(t, db, "/m/after", "3")
	way.Mend()

	waitRevision(t, m, last)
	want := map[string]string{"/m/changed": "2", "/m/same": "1", "/m/added": "2", "/m/after": "3"}
	if !cmp.Equal(r.contents(), want) {
		t.Error(cmp.Diff(want, r.contents()))
	}
	for _, b := range r.batches[1:] {
		for _, e := range b.Events {
			if e.Key == "/m/same" || e.Key == "/m/passing" {
				t.Errorf("needless event %+v", e)
			}
		}
	}
}

func TestAFrozenStoreIsNoticedWithinSeconds(t *testing.T) {
	t.Parallel() // it mostly waits
	p := testetcd.NewProcess(t)
	db := testdb.Open(t, objdb.Config{Endpoints: []string{p.URL}})
	m, r := follow(t, db)
	p.Signal(syscall.SIGSTOP)
	testkit.Eventually(t, time.Minute, "mirror notices", func() bool { return !m.Connected() })
	p.Signal(syscall.SIGCONT)
	testkit.Eventually(t, time.Minute, "mirror is connected again", m.Connected)
	waitRevision(t, m, testdb.Put(t, db, "/m/a", "1"))
	if r.get("/m/a") != "1" {
		t.Error("the put is missing")
	}
}

// A random history with compactions and broken connections: in the end the mirror equals a direct listing.
func TestAMirrorEqualsADirectListingAfterARandomHistory(t *testing.T) {
	t.Parallel() // it mostly waits
	const seed = 1
	random := rand.New(rand.NewPCG(seed, seed))
	url := testetcd.New(t)
	way := testetcd.NewProxy(t, url)
	db := testdb.Open(t, objdb.Config{Endpoints: []string{url}})
	m, r := follow(t, testdb.Open(t, objdb.Config{Endpoints: []string{way.URL}, RequestTimeout: time.Second}))

	key := func() string { return fmt.Sprintf("/m/%02d", random.IntN(30)) }
	last, compacted := testdb.Put(t, db, "/m/00", "start"), int64(0)
	for step := range 2500 {
		switch random.IntN(40) {
		case 0:
			if last > compacted {
				testdb.Compact(t, db, last)
				compacted = last
			}
		case 1:
			way.Cut()
		case 2:
			way.Mend()
			if random.IntN(3) == 0 {
				waitRevision(t, m, last)
			}
		case 3, 4, 5, 6, 7, 8, 9, 10, 11, 12:
			last = testdb.Delete(t, db, key())
		case 13, 14, 15, 16:
			testdb.Put(t, db, "/elsewhere", "x")
		default:
			txn, used := objdb.Txn{}, map[string]bool{}
			for range 1 + random.IntN(4) {
				if k := key(); !used[k] {
					used[k] = true
					txn.Puts = append(txn.Puts, objdb.KV{Key: k, Value: []byte(fmt.Sprint(step))})
				}
			}
			rev, _, err := db.Txn(context.Background(), txn)
			if err != nil {
				t.Fatal(err)
			}
			last = rev
		}
	}
	way.Mend()
	waitRevision(t, m, last)
	kvs, _, err := db.List(context.Background(), "/m/")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, kv := range kvs {
		want[kv.Key] = string(kv.Value)
	}
	if !cmp.Equal(r.contents(), want) {
		t.Errorf("seed %d: %s", seed, cmp.Diff(want, r.contents()))
	}
}

// A mirror of a part delivers only that part, and advances with revisions of other keys.
func TestAPartOfAPrefixIsFollowed(t *testing.T) {
	db := testdb.New(t)
	testdb.Put(t, db, "/m/a/1", "x")
	testdb.Put(t, db, "/m/b/1", "x")
	r := &replica{t: t, state: map[string]string{}}
	m := NewPart(db, "/m/", func(key string) bool { return key < "/m/b" }, r.deliver)
	testetcd.Run(t, m.Follow)
	testkit.Eventually(t, time.Minute, "mirror is in step", m.Synced)
	testdb.Put(t, db, "/m/b/2", "x")
	testdb.Put(t, db, "/m/a/2", "x")
	testdb.Delete(t, db, "/m/b/1")
	kv, err := db.Get(t.Context(), "/m/b/2")
	if err != nil {
		t.Fatal(err)
	}
	rev, ok, err := db.Txn(t.Context(), objdb.Txn{If: []objdb.Guard{objdb.Unchanged(kv)}, Puts: []objdb.KV{{Key: "/m/b/3"}}})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if err := m.WaitChange(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"/m/a/1": "x", "/m/a/2": "x"}, r.contents()); diff != "" {
		t.Error(diff)
	}
}

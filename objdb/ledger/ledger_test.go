package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

func TestConcurrentUpdatesAreNeitherLostNorOneTransactionEach(t *testing.T) {
	l, db, seen := newLedger(t)
	const clients, each = 64, 25
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for range each {
				if _, err := l.Update(context.Background(), increment(fmt.Sprintf("%sn/%d", state, c%4))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	total := 0
	for i := range 4 {
		n, err := strconv.Atoi(testdb.Value(t, db, fmt.Sprintf("%sn/%d", state, i)))
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if total != clients*each {
		t.Errorf("counted %d, want %d", total, clients*each)
	}
	if b := seen.batches.Load(); b*4 > clients*each {
		t.Errorf("%d transactions for %d plans: no group commit", b, clients*each)
	}
}

func TestAPlanSeesItsOwnWritesAndAFailingOneWritesNothing(t *testing.T) {
	l, db, _ := newLedger(t)
	mustUpdate(t, l, func(tx *Tx) error {
		tx.Put(state+"a/1", []byte("one"))
		tx.Put(state+"a/2", []byte("two"))
		return nil
	})
	refused := errors.New("refused")
	_, err := l.Update(context.Background(), func(tx *Tx) error {
		tx.Delete(state + "a/1")
		tx.Put(state+"a/3", []byte("three"))
		if _, ok := tx.Get(state + "a/1"); ok {
			t.Error("deleted key is still seen")
		}
		var keys []string
		tx.Range(state+"a/", func(key string, _ []byte) bool { keys = append(keys, key); return true })
		if got := strings.Join(keys, " "); got != state+"a/2 "+state+"a/3" {
			t.Errorf("range sees %s", got)
		}
		return refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
	if got := testdb.Value(t, db, state+"a/1"); got != "one" {
		t.Errorf("a/1 is %q", got)
	}
	err = l.View(func(r Reader) error {
		if _, ok := r.Get(state + "a/3"); ok {
			return errors.New("the failed plan's write is in the cache")
		}
		if _, ok := r.Get(state + "a/1"); !ok {
			return errors.New("the failed plan's deletion is in the cache")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestPlansOfOneBatchDoNotShareTheFateOfAFailingOne(t *testing.T) {
	b := newGroup(buildTree([]objdb.KV{{Key: "/s/a", Value: []byte("0"), ModRevision: 3}}), prefixes{"/s/"}, newCorruption(testkit.Quiet()))
	add := func(plan func(*Tx) error) error {
		verdict, err := b.add(context.Background(), plan)
		if verdict != taken {
			t.Fatal("does not fit")
		}
		return err
	}
	if err := add(increment("/s/a")); err != nil {
		t.Fatal(err)
	}
	if err := add(func(tx *Tx) error { tx.Put("/s/a", []byte("lost")); tx.Delete("/s/a"); return errors.New("no") }); err == nil {
		t.Fatal("no error")
	}
	if err := add(func(*Tx) error { panic("oops") }); !fault.Is(err, fault.Internal) {
		t.Fatalf("panic gave %v", err)
	}
	if err := add(increment("/s/a")); err != nil {
		t.Fatal(err)
	}
	changed := b.changes()
	if len(changed) != 1 || string(changed[0].value) != "2" || changed[0].base != 3 {
		t.Errorf("changes are %+v", changed)
	}
}

func TestAPlanThatChangesNothingCostsNothing(t *testing.T) {
	l, _, seen := newLedger(t)
	rev := mustUpdate(t, l, func(tx *Tx) error { tx.Put(state+"a", []byte("same")); return nil })
	before := seen.batches.Load()
	for range 10 {
		again := mustUpdate(t, l, func(tx *Tx) error {
			tx.Put(state+"a", []byte("same"))
			tx.Put(state+"b", []byte("x"))
			tx.Delete(state + "b")
			tx.Delete(state + "c")
			return nil
		})
		if again < rev {
			t.Errorf("revision went back from %d to %d", rev, again)
		}
	}
	if after := seen.batches.Load(); after != before {
		t.Errorf("%d transactions for plans that change nothing", after-before)
	}
}

// A key that is deleted and recreated with the same value in one batch has not changed.
func TestAKeyThatIsPutBackKeepsItsRevision(t *testing.T) {
	l, _, _ := newLedger(t)
	key := state + "a"
	made := mustUpdate(t, l, func(tx *Tx) error { tx.Put(key, []byte("1")); return nil })
	for _, other := range []string{"", "2"} { // alone, and with a change of another key
		mustUpdate(t, l, func(tx *Tx) error {
			tx.Delete(key)
			tx.Put(key, []byte("1"))
			if other != "" {
				tx.Put(state+"b", []byte(other))
			}
			return nil
		})
		_ = l.View(func(r Reader) error {
			if got := r.Revision(key); got != made {
				t.Errorf("revision %d, want %d", got, made)
			}
			return nil
		})
	}
}

func TestViewsAreConsistentAndDoNotWait(t *testing.T) {
	l, _, _ := newLedger(t)
	both := func(v string) func(*Tx) error {
		return func(tx *Tx) error {
			tx.Put(state+"a", []byte(v))
			tx.Put(model+"b", []byte(v))
			return nil
		}
	}
	mustUpdate(t, l, both("0"))
	ctx, cancel := context.WithCancel(context.Background())
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 1; ctx.Err() == nil; i++ {
			if _, err := l.Update(context.Background(), both(strconv.Itoa(i))); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 20000 {
		err := l.View(func(r Reader) error {
			a, _ := r.Get(state + "a")
			b, _ := r.Get(model + "b")
			if string(a) != string(b) || r.Revision(state+"a") != r.Revision(model+"b") {
				return fmt.Errorf("torn: %s at %d, %s at %d", a, r.Revision(state+"a"), b, r.Revision(model+"b"))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	writer.Wait()
}

func TestALargePlanIsCommittedInTheOrderOfItsWrites(t *testing.T) {
	l, db, seen := newLedger(t)
	rev := mustUpdate(t, l, func(tx *Tx) error {
		tx.Put(model+"policy", []byte("first, then moved to the end"))
		for i := range many {
			tx.Put(fmt.Sprintf("%srule/%04d", state, i), []byte("r"))
		}
		tx.Put(model+"policy", []byte("last"))
		return nil
	})
	kvs, _, err := db.List(context.Background(), state)
	if err != nil || len(kvs) != many {
		t.Fatalf("%d keys, %v", len(kvs), err)
	}
	for i := 1; i < many; i++ {
		if kvs[i].ModRevision < kvs[i-1].ModRevision {
			t.Fatalf("%s was written before %s", kvs[i].Key, kvs[i-1].Key)
		}
	}
	policy, err := db.Get(context.Background(), model+"policy")
	if err != nil || policy.ModRevision != rev || policy.ModRevision < kvs[many-1].ModRevision {
		t.Errorf("policy %+v, %v; Update returned %d", policy, err, rev)
	}
	const parts, marks, pieces = 5, 2, (many + politeOps) / politeOps // of one key more than many
	if n := seen.batches.Load(); n != parts+marks+pieces {
		t.Errorf("%d transactions", n)
	}
	big := make([]byte, 600<<10)
	mustUpdate(t, l, func(tx *Tx) error {
		for i := range 4 {
			tx.Put(fmt.Sprintf("%sbig/%d", state, i), append([]byte{byte(i)}, big...))
		}
		return nil
	})
}

func TestAValueTooLargeForTheStoreFailsOnlyItsOwnPlan(t *testing.T) {
	l, db, _ := newLedger(t)
	huge := func(tx *Tx) error { tx.Put(state+"huge", make([]byte, 3<<20)); return nil } // more than a message may have
	for i, update := range []func(context.Context, func(*Tx) error) (int64, error){l.Update, l.UpdateLarge} {
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := update(context.Background(), huge); !fault.Is(err, fault.TooLarge) {
				t.Errorf("3 MiB were answered with %v", err)
			}
		})
		both.Go(func() { mustUpdate(t, l, increment(state+"n")) })
		both.Wait()
		if got := testdb.Value(t, db, state+"n"); got != fmt.Sprint(i+1) {
			t.Errorf("n is %s", got)
		}
	}
}

func TestCorruptValuesAreReportedOnceWithTheirKey(t *testing.T) {
	log, hook := logtest.NewNullLogger()
	db := testdb.Open(t, objdb.Config{Endpoints: []string{testetcd.New(t)}, Log: logrus.NewEntry(log)})
	testdb.Put(t, db, state+"nets/bad", "{not json")
	testdb.Put(t, db, state+"nets/good", `{"id":"good"}`)
	l := openLedger(t, lead(t, db))

	type net struct {
		ID string `json:"id"`
	}
	for range 3 {
		err := l.View(func(r Reader) error {
			nets, err := ReadAll[net](r, state+"nets/")
			if err == nil && (len(nets) != 1 || nets[0].ID != "good") {
				t.Errorf("read %+v", nets)
			}
			if _, err := Read[net](r, state+"nets/bad"); fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), state+"nets/bad") {
				t.Errorf("reading the corrupt one: %v", err)
			}
			if _, err := Read[net](r, state+"nets/none"); !fault.Is(err, fault.NotFound) {
				t.Errorf("reading an absent one: %v", err)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	reports := 0
	for _, e := range hook.AllEntries() {
		if e.Data["key"] == state+"nets/bad" {
			reports++
		}
	}
	if reports != 1 {
		t.Errorf("reported %d times", reports)
	}
}

func TestKeysOutsideTheLedgerAreRefused(t *testing.T) {
	l, _, _ := newLedger(t)
	for name, plan := range map[string]func(*Tx) error{
		"put":    func(tx *Tx) error { tx.Put("/contiv.io/lock/x", nil); return nil },
		"delete": func(tx *Tx) error { tx.Delete("/contiv.io/lock/x"); return nil },
		"get":    func(tx *Tx) error { tx.Get("/contiv.io/lock/x"); return nil },
		"range":  func(tx *Tx) error { tx.Range("/contiv.io/", func(string, []byte) bool { return true }); return nil },
	} {
		if _, err := l.Update(context.Background(), plan); !fault.Is(err, fault.Internal) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := l.View(func(r Reader) error { r.Get("/contiv.io/lock/x"); return nil }); err == nil {
		t.Error("view of a foreign key")
	}
}

func TestACallerWhoGaveUpBeforeTheTurnIsNotServed(t *testing.T) {
	l, db, _ := newLedger(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	var first sync.WaitGroup
	first.Go(func() {
		mustUpdate(t, l, func(tx *Tx) error {
			close(entered)
			<-leave
			return increment(state + "first")(tx)
		})
	})
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	gaveUp := make(chan error)
	go func() {
		_, err := l.Update(ctx, increment(state+"second"))
		gaveUp <- err
	}()
	testkit.Eventually(t, time.Minute, "second plan waits", func() bool {
		l.small.mu.Lock()
		defer l.small.mu.Unlock()
		return len(l.small.waiting) == 1
	})
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(leave)
	first.Wait()
	mustUpdate(t, l, increment(state+"third"))
	if _, err := db.Get(context.Background(), state+"second"); !fault.Is(err, fault.NotFound) {
		t.Errorf("abandoned plan: %v", err)
	}
}

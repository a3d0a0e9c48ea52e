package ledger

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// parted is a ledger behind a proxy, and a direct connection that reports the appearance of a key of the journal.
func parted(t *testing.T, key string) (l *Ledger, near *objdb.DB, way *testetcd.Proxy, appeared chan struct{}) {
	t.Helper()
	url := testetcd.New(t)
	way = testetcd.NewProxy(t, url)
	near = testdb.At(t, url)
	far := testdb.Open(t, objdb.Config{Endpoints: []string{way.URL}, RequestTimeout: time.Second})
	appeared = make(chan struct{}, 1)
	m := mirror.New(near, journalRoot, func(b mirror.Batch) {
		for _, e := range b.Events {
			if strings.HasSuffix(e.Key, key) && e.Value != nil {
				way.Silence()
				select {
				case appeared <- struct{}{}:
				default: // one is enough
				}
			}
		}
	})
	testetcd.Run(t, func(ctx context.Context) { _ = m.Run(ctx) })
	testkit.Eventually(t, time.Minute, "the journal is watched", m.Synced)
	term := campaign(t, far, "far", time.Minute)
	t.Cleanup(func() { resign(t, term) })
	return openLedger(t, term), near, way, appeared
}

// The store is unavailable from the moment a plan is decided. No reader sees half of the plan, and it is completed
// as soon as the store is back, without a request.
func TestADecidedPlanIsFinishedAtOnceWhenTheStoreIsBack(t *testing.T) {
	for range 3 { // mostly the answer for the mark is lost
		l, near, way, appeared := parted(t, "/committed")
		testdb.Put(t, near, state+"old", "x")
		testkit.Eventually(t, time.Minute, "old arrives", func() bool { return held(l, state+"old") == "x" })
		outcome := make(chan error, 1)
		begin := func() {
			_, err := l.UpdateLarge(context.Background(), func(tx *Tx) error {
				tx.Delete(state + "old")
				return generation("new")(tx)
			})
			outcome <- err
		}
		go begin()
		for decided := false; !decided; {
			select {
			case <-appeared:
				decided = true
			case err := <-outcome:
				switch {
				case err == nil: // completed before the key appeared
					outcome <- nil
					<-appeared
					decided = true
				case fault.Is(err, fault.Unavailable): // the store did not answer within a second
					go begin()
				default:
					t.Fatal(err)
				}
			}
		}
		whole := func(r Reader) error {
			n := 0
			_, old := r.Get(state + "old")
			r.Range(state+"generation/", func(string, []byte) bool { n++; return true })
			if n != 0 && n != many || old != (n == 0) {
				return fmt.Errorf("%d of %d keys, old %v", n, many, old)
			}
			return nil
		}
		testkit.Eventually(t, time.Minute, "a request is lost", func() bool {
			if err := l.View(whole); err != nil {
				t.Fatal(err)
			}
			return way.Lost()
		})
		way.Mend()
		if err := <-outcome; err != nil {
			t.Fatal(err)
		}
		kvs, _, err := near.List(context.Background(), state)
		if err != nil || len(kvs) != many {
			t.Fatalf("%d keys, %v", len(kvs), err)
		}
		if err := l.View(whole); err != nil {
			t.Error(err)
		}
	}
}

// A plan that writes waits for the changes that are not stored yet, of the keys that it has read, also in a range: otherwise followers
// would see what follows from a change before the change.
func TestAPlanWaitsForWhatItHasReadOfADecidedOne(t *testing.T) {
	d := newDecided(5, 4, "/progress")
	d.add(change{key: state + "of/b", delete: true})
	for name, c := range map[string]struct {
		read, write string
		want        verdict
	}{
		"a range with the key":           {"of/", "other", blocked},
		"another range":                  {"off/", "other", taken},
		"a range with it, to be read":    {"of/", "", taken},
		"nothing, and it is written":     {"", "of/b", blocked},
		"nothing, another one is":        {"", "of/a", taken},
		"a range that the key begins so": {"of/b/", "other", taken},
	} {
		g := newPlanning()
		g.waits = d
		got, err := g.add(t.Context(), func(tx *Tx) error {
			if c.read != "" {
				tx.Range(state+c.read, func(string, []byte) bool { return true })
			}
			if c.write != "" {
				tx.Put(state+c.write, []byte("x"))
			}
			return nil
		})
		if got != c.want || err != nil {
			t.Errorf("%s: verdict %d, want %d, %v", name, got, c.want, err)
		}
	}
}

// A transaction of a journal that arrives late must not overwrite later writes.
func TestALateTransactionOfAJournalDoesNothing(t *testing.T) {
	l, db, _ := newLedger(t)
	late, most := make(chan objdb.Txn, 1), maxOps(t, l)
	m := mirror.New(db, journalRoot, func(b mirror.Batch) {
		for _, e := range b.Events {
			if strings.HasSuffix(e.Key, "/committed") && e.Value != nil {
				kvs, _, err := db.List(context.Background(), journalRoot)
				if err != nil {
					t.Error(err)
				}
				if d, err := l.journal.decode(kvs, l.owned); err == nil && d != nil {
					select {
					case late <- l.journal.transaction(d, d.next(most)):
					default: // one is enough
					}
				}
			}
		}
	})
	testetcd.Run(t, func(ctx context.Context) { _ = m.Run(ctx) })
	testkit.Eventually(t, time.Minute, "the journal is watched", m.Synced)
	var txn objdb.Txn
	for txn.Puts == nil { // the plan may be complete before its journal is read
		mustUpdate(t, l, generation("a"))
		mustUpdate(t, l, generation("b"))
		select {
		case txn = <-late:
		default:
		}
	}
	mustUpdate(t, l, generation("newest"))
	if _, ok, err := l.term.Txn(context.Background(), txn); err != nil || ok {
		t.Errorf("a late transaction happened: %v, %v", ok, err)
	}
	if err := l.View(oneGeneration); err != nil {
		t.Error(err)
	}
}

func TestALargePlanIsStoredInTheOrderOfItsPlaces(t *testing.T) {
	const together = 10 * politeOps // changes of the plan that must be visible together
	db := testdb.New(t)
	testdb.Put(t, db, state+"gone", "x")
	last := func(key string, before, after []byte) (int, bool) {
		switch {
		case before != nil && after == nil:
			return 3, false // deletions
		case string(after) == "late":
			return 2, false
		}
		return map[bool]int{true: 1}[string(after) == "one"], string(after) == "one"
	}
	l, err := Open(context.Background(), lead(t, db), Config{Owned: []string{state, model}, Order: last})
	if err != nil {
		t.Fatal(err)
	}
	mustUpdate(t, l, func(tx *Tx) error {
		tx.Delete(state + "gone")
		for i := range many {
			tx.Put(fmt.Sprintf("%slate/%04d", state, i), []byte("late"))
		}
		for i := range many {
			tx.Put(fmt.Sprintf("%searly/%04d", state, i), []byte("early"))
		}
		for i := range together {
			tx.Put(fmt.Sprintf("%sone/%04d", state, i), []byte("one"))
		}
		return nil
	})
	newest, oldest := int64(0), int64(1<<62)
	kvs, rev, err := db.List(context.Background(), state)
	if err != nil || len(kvs) != 2*many+together {
		t.Fatal(len(kvs), err)
	}
	one := map[int64]int{}
	for _, kv := range kvs {
		switch string(kv.Value) {
		case "early":
			newest = max(newest, kv.ModRevision)
		case "late":
			oldest = min(oldest, kv.ModRevision)
		case "one":
			one[kv.ModRevision]++
		}
	}
	for at, n := range one {
		if n != together || at < newest || at > oldest {
			t.Errorf("%d of %d changes are seen at %d; the early ones end at %d, the late ones begin at %d", n, together, at, newest, oldest)
		}
	}
	if newest > oldest {
		t.Errorf("a late change at %d, an early one at %d of %d", oldest, newest, rev)
	}
}

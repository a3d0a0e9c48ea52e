package ledger

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// many is more keys than fit into one transaction of any store.
const many = objdb.ManyOps + 100

// generation returns a plan that writes the same value to many keys.
func generation(value string) func(*Tx) error {
	return func(tx *Tx) error {
		for i := range many {
			tx.Put(fmt.Sprintf("%sgeneration/%04d", state, i), []byte(value))
		}
		return nil
	}
}

// oneGeneration returns an error if a reader sees keys of different generations.
func oneGeneration(r Reader) error {
	values := map[string]int{}
	r.Range(state+"generation/", func(_ string, value []byte) bool { values[string(value)]++; return true })
	if len(values) > 1 || len(values) == 1 && values[""] == 0 && sum(values) != many {
		return fmt.Errorf("a mixture of %v", values)
	}
	return nil
}

func sum(values map[string]int) (n int) {
	for _, v := range values {
		n += v
	}
	return n
}

func TestOthersGoOnWhileALargePlanRuns(t *testing.T) {
	l, db, _ := newLedger(t)
	runs, entered, leave := 0, make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_, err := l.UpdateLarge(context.Background(), func(tx *Tx) error {
			if runs++; runs == 1 {
				close(entered)
				<-leave
			}
			return generation("a")(tx)
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-entered
	for range 10 {
		mustUpdate(t, l, increment(state+"n"))
	}
	close(leave)
	all.Wait()
	if got := testdb.Value(t, db, state+"n"); got != "10" || runs != 1 {
		t.Errorf("n is %s after %d runs", got, runs)
	}
}

// A plan started as a large one that is small after all needs no second run.
func TestAPlanThatFitsAfterAllRunsOnce(t *testing.T) {
	l, db, _ := newLedger(t)
	runs := 0
	rev, err := l.UpdateLarge(context.Background(), func(tx *Tx) error {
		if runs++; runs == 1 {
			mustUpdate(t, l, increment(state+"other"))
		}
		return increment(state + "n")(tx)
	})
	if err != nil || runs != 1 {
		t.Errorf("%v after %d runs", err, runs)
	}
	kv, err := db.Get(context.Background(), state+"n")
	if err != nil || kv.ModRevision > rev || held(l, state+"n") != "1" || held(l, state+"other") != "1" {
		t.Errorf("n %+v at %d, %v; other %s", kv, rev, err, held(l, state+"other"))
	}
	runs = 0
	_, err = l.UpdateLarge(context.Background(), func(tx *Tx) error {
		if runs++; runs == 1 {
			testdb.Put(t, db, state+"n", "50") // by another client
		}
		return increment(state + "n")(tx)
	})
	if got := testdb.Value(t, db, state+"n"); err != nil || got != "51" || runs != 2 {
		t.Errorf("n is %s after %d runs, %v", got, runs, err)
	}
}

// A caller that gives up while its plan runs has nothing of it committed, even if it fits into one transaction.
func TestALargePlanThatIsGivenUpWhileItRunsIsNotCommitted(t *testing.T) {
	l, db, _ := newLedger(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := l.UpdateLarge(ctx, func(tx *Tx) error {
		defer cancel()
		return increment(state + "n")(tx)
	})
	if !fault.Is(err, fault.Unavailable) || held(l, state+"n") != "-" {
		t.Errorf("%v, and n is %s", err, held(l, state+"n"))
	}
	if kv, err := db.Get(t.Context(), state+"n"); !fault.Is(err, fault.NotFound) {
		t.Errorf("the store has %s, %v", kv.Value, err)
	}
}

// The state is read again while a large plan runs, as after an outage, and others have changed what the plan has
// read. It runs again: no event tells the ledger of that change.
func TestALargePlanRunsAgainWhenTheStateIsReadAgain(t *testing.T) {
	l, db, _ := newLedger(t)
	mustUpdate(t, l, increment(state+"n"))
	runs := 0
	_, err := l.UpdateLarge(t.Context(), func(tx *Tx) error {
		n, _ := tx.Get(state + "n")
		if runs++; runs == 1 {
			failed := inCommitter(l, func(c *committer) error { // no event arrives in between
				testdb.Put(t, db, state+"n", "50")
				return c.reload(t.Context())
			})
			if failed != nil {
				t.Error(failed)
			}
		}
		return generation(string(n))(tx)
	})
	if got := testdb.Value(t, db, state+"generation/0000"); err != nil || got != "50" || runs != 2 {
		t.Errorf("written by %s after %d runs, %v", got, runs, err)
	}
}

// A plan that has nothing to change is answered with a revision at which that was so, not with one at which others
// have changed the keys again.
func TestALargePlanThatChangesNothingIsAnsweredWithWhatItHasSeen(t *testing.T) {
	l, db, _ := newLedger(t)
	mustUpdate(t, l, increment(state+"n"))
	var gone int64
	rev, err := l.UpdateLarge(context.Background(), func(tx *Tx) error {
		if _, ok := tx.Get(state + "n"); !ok {
			return errors.New("n is not there")
		}
		gone = mustUpdate(t, l, func(tx *Tx) error { tx.Delete(state + "n"); return nil })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.GetAt(context.Background(), state+"n", rev); err != nil || rev >= gone {
		t.Errorf("answered at %d, gone at %d: %v", rev, gone, err)
	}
}

// Other clients' writes below a prefix arrive in the order of the store, so a large plan need not check each
// prefix separately.
func TestALargePlanDoesNotWaitForPrefixesThatNobodyWrites(t *testing.T) {
	const quiet, wait = 200, 25 * time.Millisecond
	took := func(prefixes int) time.Duration {
		cfg := Config{Owned: []string{state}}
		for i := range prefixes {
			cfg.Owned = append(cfg.Owned, fmt.Sprintf("%squiet/%d/", model, i))
		}
		l, err := Open(context.Background(), lead(t, testdb.New(t)), cfg)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		mustUpdate(t, l, generation("a"))
		return time.Since(began)
	}
	// On a busy machine both take longer.
	if alone, among := took(0), took(quiet); among > 3*alone+quiet*wait {
		t.Errorf("it took %s, and %s alone", among, alone)
	}
}

func TestALargePlanWhoseCallerHasGoneIsGivenUp(t *testing.T) {
	l, db, _ := newLedger(t)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := l.UpdateLarge(ctx, func(tx *Tx) error {
		cancel()
		<-tx.Context().Done()
		return tx.Context().Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	_, err = l.UpdateLarge(ctx, generation("a"))
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	mustUpdate(t, l, generation("b")) // other plans are possible again
	if got := testdb.Value(t, db, state+"generation/0000"); got != "b" {
		t.Errorf("got %s", got)
	}
}

// Other plans wait only if they conflict with a plan that had conflicts before.
func TestOthersGoOnBesideAPlanThatWasDisturbed(t *testing.T) {
	l, db, _ := newLedger(t)
	mustUpdate(t, l, increment(state+"n"))
	runs := 0
	var disturbing sync.WaitGroup
	_, err := l.UpdateLarge(t.Context(), func(tx *Tx) error {
		n, _ := tx.Get(state + "n")
		tx.Put(state+"copy", n)
		if runs++; runs <= politeTries {
			mustUpdate(t, l, increment(state+"n"))
			return generation("a")(tx)
		}
		disturbing.Go(func() { mustUpdate(t, l, increment(state+"n")) })
		for range 3 { // a plan shares a group with plans that arrive at the same time
			mustUpdate(t, l, increment(state+"other"))
		}
		testkit.Eventually(t, time.Minute, "who disturbs it waits", func() (waits bool) {
			return inCommitter(l, func(c *committer) error { waits = len(c.held) > 0; return nil }) == nil && waits
		})
		return generation("a")(tx)
	})
	disturbing.Wait()
	if n, copied := testdb.Value(t, db, state+"n"), testdb.Value(t, db, state+"copy"); err != nil || runs != politeTries+1 || n != "4" || copied != "3" {
		t.Errorf("%d runs, n is %s and was copied as %s, %v", runs, n, copied, err)
	}
}

// A plan that reads other keys in each run, with a conflict each time, finally runs alone.
func TestAPlanThatIsAlwaysDisturbedElsewhereHasItsTurn(t *testing.T) {
	l, _, _ := newLedger(t)
	runs := 0
	_, err := l.UpdateLarge(t.Context(), func(tx *Tx) error {
		runs++
		key := fmt.Sprintf("%sn%d", state, runs)
		tx.Get(key)
		if runs < maxTries {
			mustUpdate(t, l, increment(key))
		}
		return generation("a")(tx)
	})
	if err != nil || runs != maxTries {
		t.Errorf("%v after %d runs", err, runs)
	}
}

// A plan with a conflict in each run finally succeeds.
func TestALargePlanIsNotStarvedByOthers(t *testing.T) {
	l, db, _ := newLedger(t)
	mustUpdate(t, l, increment(state+"n"))
	var writing sync.WaitGroup
	stop := make(chan struct{})
	writing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				mustUpdate(t, l, increment(state+"n"))
			}
		}
	})
	runs := 0
	_, err := l.UpdateLarge(context.Background(), func(tx *Tx) error {
		runs++
		n, _ := tx.Get(state + "n")
		tx.Put(state+"copy", n)
		return generation("a")(tx)
	})
	close(stop)
	writing.Wait()
	if err != nil || runs > politeTries+1 {
		t.Errorf("%v after %d runs", err, runs)
	}
	t.Logf("%d runs, copy %s", runs, testdb.Value(t, db, state+"copy"))
}

// Large and small plans, and a client that bypasses the ledger, increment the same keys: no increment is lost, and
// no reader sees half of a large plan.
func TestLargePlansAndOthersSeeOneHistory(t *testing.T) {
	l, db, seen := newLedger(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	counter := func(i int) string { return fmt.Sprintf("%scounter/%04d", state, i) }
	var all, reading sync.WaitGroup
	stop := make(chan struct{})
	reading.Go(func() {
		for {
			if err := l.View(oneGeneration); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-stop:
				return
			case <-seen.news:
			}
		}
	})
	const rounds, small, watched = 4, 60, 40
	large := 0
	all.Go(func() {
		for round := range rounds {
			_, err := l.UpdateLarge(ctx, func(tx *Tx) error {
				for i := range watched {
					if err := increment(counter(i))(tx); err != nil {
						return err
					}
				}
				return generation(strconv.Itoa(round))(tx)
			})
			if err == nil {
				large++
			} else if !fault.Is(err, fault.Conflict) {
				t.Error(err)
			}
		}
	})
	for client := range 3 {
		all.Go(func() {
			for i := range small {
				if _, err := l.Update(ctx, increment(counter((client*7+i)%watched))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	foreign := 0
	all.Go(func() {
		for i := range small {
			key := counter(i * 3 % watched)
			kv, err := db.Get(ctx, key)
			guard := objdb.Unchanged(kv)
			if fault.Is(err, fault.NotFound) {
				guard = objdb.Absent(key)
			} else if err != nil {
				t.Error(err)
			}
			n, _ := strconv.Atoi(string(kv.Value))
			_, ok, err := db.Txn(ctx, objdb.Txn{If: []objdb.Guard{guard}, Puts: []objdb.KV{{Key: key, Value: []byte(strconv.Itoa(n + 1))}}})
			if err != nil {
				t.Error(err)
			} else if ok {
				foreign++
			}
			testkit.Eventually(t, time.Minute, "the store goes on", func() bool { return db.Ping(ctx) == nil })
		}
	})
	all.Wait()
	close(stop)
	reading.Wait()
	total := 0
	for i := range watched {
		n, err := strconv.Atoi(testdb.Value(t, db, counter(i)))
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if want := large*watched + 3*small + foreign; total != want || large == 0 {
		t.Errorf("counted %d, want %d (%d large plans, %d foreign writes)", total, want, large, foreign)
	}
	if kvs, _, err := db.List(ctx, journalRoot); err != nil || len(kvs) != 0 {
		t.Errorf("%d keys of the journal are left, %v", len(kvs), err)
	}
}

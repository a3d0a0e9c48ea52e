package ledger

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

func TestAnUnknownOutcomeIsSaidAndTheLedgerGoesOnFromTheTruth(t *testing.T) {
	url := testetcd.New(t)
	way := testetcd.NewProxy(t, url)
	near := testdb.Open(t, objdb.Config{Endpoints: []string{url}})
	far := testdb.Open(t, objdb.Config{Endpoints: []string{way.URL}, RequestTimeout: 700 * time.Millisecond})
	l := openLedger(t, campaign(t, far, "far", time.Minute))
	testkit.Eventually(t, time.Minute, "it counts", func() bool {
		_, err := l.Update(context.Background(), increment(state+"n"))
		return err == nil
	})

	way.Silence()
	testkit.Eventually(t, time.Minute, "an update is left open", func() bool { // unless no part of it was sent in time
		_, err := l.Update(context.Background(), increment(state+"n"))
		if !fault.Is(err, fault.Unavailable) {
			t.Fatalf("got %v", err)
		}
		return strings.Contains(err.Error(), "unknown outcome")
	})
	if _, err := l.Update(context.Background(), increment(state+"n")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("while the store is away: %v", err)
	}
	testdb.Put(t, near, state+"n", "40") // the store's value changes meanwhile
	way.Mend()
	testkit.Eventually(t, time.Minute, "ledger works again", func() bool {
		_, err := l.Update(context.Background(), func(tx *Tx) error {
			if n, _ := tx.Get(state + "n"); string(n) == "41" {
				return nil // counted; only the answer was late
			}
			return increment(state + "n")(tx)
		})
		return err == nil
	})
	if got := testdb.Value(t, near, state+"n"); got != "41" {
		t.Errorf("n is %s", got)
	}
	resign(t, l.term)
}

// Counting while the store is killed with kill -9: no confirmed increment is lost, and none is counted that was
// neither confirmed nor of unknown outcome.
func TestConfirmedUpdatesSurviveCrashesOfTheStore(t *testing.T) {
	t.Parallel() // it mostly waits
	p := testetcd.NewProcess(t)
	db := testdb.Open(t, objdb.Config{Endpoints: []string{p.URL}, RequestTimeout: time.Second})
	l := openLedger(t, campaign(t, db, "a", time.Minute))
	ctx, cancel := context.WithCancel(context.Background())
	var confirmed, unknown atomic.Int64
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for ctx.Err() == nil {
				switch _, err := l.Update(context.Background(), increment(state+"n")); {
				case err == nil:
					confirmed.Add(1)
				case strings.Contains(err.Error(), "unknown outcome"):
					unknown.Add(1)
				case !fault.Is(err, fault.Unavailable):
					t.Error(err)
					return
				}
			}
		})
	}
	for round := range 3 {
		before := confirmed.Load()
		testkit.Eventually(t, time.Minute, "updates are confirmed in round "+strconv.Itoa(round), func() bool {
			return confirmed.Load() > before+50
		})
		p.Kill()
		p.Start()
	}
	cancel()
	clients.Wait()
	n, err := strconv.ParseInt(testdb.Value(t, testdb.At(t, p.URL), state+"n"), 10, 64)
	if err != nil || n < confirmed.Load() || n > confirmed.Load()+unknown.Load() {
		t.Errorf("counted %d, %v; confirmed %d, unknown %d", n, err, confirmed.Load(), unknown.Load())
	}
	resign(t, l.term)
}

func TestResigningFinishesTheCommitInProgressAndRefusesTheRest(t *testing.T) {
	db := testdb.New(t)
	term := campaign(t, db, "a", time.Minute)
	l := openLedger(t, term)
	entered, leave := make(chan struct{}), make(chan struct{})
	result := make(chan error, 1)
	go func() {
		_, err := l.Update(context.Background(), func(tx *Tx) error {
			close(entered)
			<-leave
			return increment(state + "n")(tx)
		})
		result <- err
	}()
	<-entered
	resigned := make(chan struct{})
	go func() { defer close(resigned); resign(t, term) }()
	<-term.Context().Done()
	close(leave)
	if err := <-result; err != nil {
		t.Errorf("commit in progress: %v", err)
	}
	<-resigned
	if got := testdb.Value(t, db, state+"n"); got != "1" {
		t.Errorf("n is %s", got)
	}
	if _, err := Open(context.Background(), term, Config{Owned: []string{state}}); !fault.Is(err, fault.NotLeader) {
		t.Errorf("ledger of an ended term: %v", err)
	}
}

func TestANewTermStartsFromWhatTheLastOneWrote(t *testing.T) {
	db := testdb.New(t)
	for i := range 3 {
		term := campaign(t, db, "a", time.Minute)
		l := openLedger(t, term)
		mustUpdate(t, l, increment(state+"n"))
		resign(t, term)
		if got := testdb.Value(t, db, state+"n"); got != strconv.Itoa(i+1) {
			t.Errorf("n is %s in term %d", got, i)
		}
	}
}

// A full store refuses a plan: that is neither an unknown outcome nor a reason to list the store again. Deletions
// are still possible.
func TestTheRefusalOfAFullStoreIsSaidAsSuch(t *testing.T) {
	db := testdb.At(t, testetcd.NewSmall(t, 16<<20))
	l := openLedger(t, lead(t, db))
	mustUpdate(t, l, increment(state+"n"))
	large, err := make([]byte, 1<<20), error(nil)
	for i := 0; err == nil && i < 100; i++ {
		_, _, err = db.Txn(context.Background(), objdb.Txn{Puts: []objdb.KV{{Key: fmt.Sprint("/large/", i), Value: large}}})
	}
	if !fault.Is(err, fault.Exhausted) {
		t.Fatalf("filling the store: %v", err)
	}
	loaded := listedAt(t, l)
	for range 3 {
		_, err = l.Update(context.Background(), increment(state+"n"))
		if !fault.Is(err, fault.Exhausted) || strings.Contains(err.Error(), "unknown outcome") || !strings.Contains(err.Error(), "full") {
			t.Errorf("got %v", err)
		}
	}
	_, err = l.UpdateLarge(context.Background(), generation("a"))
	if !fault.Is(err, fault.Exhausted) {
		t.Errorf("a large plan: %v", err)
	}
	if listedAt(t, l) != loaded {
		t.Error("a refusal made the ledger read everything again")
	}
	mustUpdate(t, l, func(tx *Tx) error { tx.Delete(state + "n"); return nil })
}

package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
)

// written is the number of keys of the large plan in these tests: far more than fit into one transaction, in
// several parts of a journal.
const written = 20000

func largePlan(tx *Tx) error {
	tx.Delete(state + "old")
	for i := range written {
		tx.Put(fmt.Sprintf("%smany/%05d", state, i), payload[:60])
	}
	return nil
}

// writeMany is a leader that commits the large plan repeatedly.
func writeMany(args []string) error {
	ctx := context.Background()
	db, err := objdb.Open(objdb.Config{Endpoints: args[:1], RequestTimeout: time.Minute, Log: testkit.Quiet()})
	if err != nil {
		return err
	}
	for {
		// Short, so that a successor does not wait long. On a busy machine the lease may expire early.
		term, err := db.Campaign(ctx, objdb.CampaignConfig{Lock: lock, Value: "writer", TTL: 3 * time.Second})
		if err != nil {
			return err
		}
		if err := writeInATerm(ctx, term); err != nil && term.Context().Err() == nil {
			return err
		}
	}
}

func writeInATerm(ctx context.Context, term *objdb.Term) error {
	l, err := Open(ctx, term, Config{Owned: []string{state}})
	if err != nil {
		return err
	}
	fmt.Println("leading")
	if _, err := l.Update(ctx, largePlan); err != nil {
		return err
	}
	fmt.Println("written")
	<-term.Context().Done()
	return term.Ended()
}

// killAt starts a leader that commits the large plan, kills it as kill -9 does when a key appears, and returns the
// content of the store. However late the kill is, at most some of the leader's transactions after the one with
// that key are applied.
func killAt(t *testing.T, db *objdb.DB, url, appears string, after int64) (keys, journal int) {
	t.Helper()
	var left atomic.Int64
	left.Store(math.MaxInt64)
	relay := testetcd.NewRelay(t, url, func(r testetcd.Request) ([]byte, error) {
		if r.Method == "Txn" && left.Add(-1) < 0 {
			return nil, testetcd.ErrNoAnswer
		}
		answer, err := r.Send()
		var happened pb.TxnResponse
		if bytes.Contains(r.Body, []byte(appears+"\x12")) && err == nil && proto.Unmarshal(answer, &happened) == nil && happened.Succeeded {
			left.Store(after)
		}
		return answer, err
	})
	seen := make(chan struct{}, 1)
	m := mirror.New(db, journalRoot, func(b mirror.Batch) {
		for _, e := range b.Events {
			if strings.HasSuffix(e.Key, appears) && e.Value != nil {
				select {
				case seen <- struct{}{}:
				default:
				}
			}
		}
	})
	testetcd.Run(t, func(ctx context.Context) { _ = m.Run(ctx) })
	c := testetcd.StartChild(t, "writer", relay)
	select {
	case <-seen:
		c.Kill()
	case <-time.After(time.Minute):
		c.Kill()
		t.Fatalf("no journal: %q", c.Failed)
	}
	count := func(prefix string) int {
		kvs, _, err := db.List(context.Background(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		return len(kvs)
	}
	return count(state + "many/"), count(journalRoot)
}

// successor opens the ledger of the next term and returns what it finds.
func successor(t *testing.T, db *objdb.DB) (keys int, old bool) {
	t.Helper()
	l := openLedger(t, campaign(t, db, "next", time.Minute))
	err := l.View(func(r Reader) error {
		_, old = r.Get(state + "old")
		r.Range(state+"many/", func(string, []byte) bool { keys++; return true })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if kvs, _, err := db.List(context.Background(), journalRoot); err != nil || len(kvs) != 0 {
		t.Errorf("%d keys of the journal are left, %v", len(kvs), err)
	}
	return keys, old
}

func TestALargeCommitWhoseLeaderIsKilledIsFinishedByItsSuccessor(t *testing.T) {
	t.Parallel() // it mostly waits
	p := testetcd.NewProcess(t)
	db := testdb.Open(t, objdb.Config{Endpoints: []string{p.URL}})
	testdb.Put(t, db, state+"old", "x")
	keys, journal := killAt(t, db, p.URL, "/committed", 3)
	if journal == 0 || keys == written {
		t.Fatalf("%d keys, %d of the journal: the leader was killed too late", keys, journal)
	}
	t.Logf("killed with %d of %d keys written", keys, written)
	if keys, old := successor(t, db); keys != written || old {
		t.Errorf("%d of %d keys, old %v", keys, written, old)
	}
}

func TestALargeCommitThatWasNotDecidedLeavesNoTrace(t *testing.T) {
	t.Parallel() // it mostly waits
	p := testetcd.NewProcess(t)
	db := testdb.Open(t, objdb.Config{Endpoints: []string{p.URL}})
	testdb.Put(t, db, state+"old", "x")
	keys, journal := killAt(t, db, p.URL, "/000000", 0)
	if journal == 0 || keys != 0 {
		t.Fatalf("%d keys, %d of the journal: the leader was killed too late", keys, journal)
	}
	if keys, old := successor(t, db); keys != 0 || !old {
		t.Errorf("%d keys, old %v", keys, old)
	}
}

func TestALargePlanIsRunAgainWhenOthersWriteInBetween(t *testing.T) {
	l, db, _ := newLedger(t)
	mustUpdate(t, l, increment(state+"n"))
	runs := 0
	_, err := l.UpdateLarge(context.Background(), func(tx *Tx) error {
		runs++
		if err := largePlan(tx); err != nil {
			return err
		}
		err := increment(state + "n")(tx)
		if runs == 1 {
			testdb.Put(t, db, state+"n", "50")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := testdb.Value(t, db, state+"n"); got != "51" || runs != 2 {
		t.Errorf("n is %s after %d runs", got, runs)
	}
	if kvs, _, err := db.List(context.Background(), journalRoot); err != nil || len(kvs) != 0 {
		t.Errorf("%d keys of the journal are left, %v", len(kvs), err)
	}
}

// The transaction that deletes a journal may be applied after it was retried: it must not affect the next journal.
func TestADeletionOfAJournalThatArrivesLateLeavesTheNextOne(t *testing.T) {
	l, db, _ := newLedger(t)
	j, p := l.journal, &preparer{shared: l.shared}
	count := func() int {
		t.Helper()
		kvs, _, err := db.List(t.Context(), j.prefix)
		if err != nil {
			t.Fatal(err)
		}
		return len(kvs)
	}
	marks := []string{j.prepared(), j.committed()}
	for _, had := range [][]string{marks, marks[:1], marks[1:], nil} {
		for _, next := range [][]string{marks, marks[:1]} {
			part := j.part("a", 0)
			for _, key := range append([]string{part}, had...) {
				testdb.Put(t, db, key, "x")
			}
			late, err := l.deletions(t.Context(), []string{part})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.drop([]string{part}); err != nil || count() != 0 {
				t.Fatalf("%q: %d keys are left, %v", had, count(), err)
			}
			for _, key := range next {
				testdb.Put(t, db, key, "x")
			}
			for _, txn := range late {
				if _, err := fenced(l.term.Txn(t.Context(), txn)); err != nil && !errors.Is(err, errConflict) {
					t.Fatal(err)
				}
			}
			if left := count(); left != len(next) {
				t.Errorf("after %q, of %q %d are left", had, next, left)
			}
			if err := p.drop(nil); err != nil || count() != 0 {
				t.Fatalf("%d keys are left, %v", count(), err)
			}
		}
	}
}

func TestStoresWithSmallAndLargeTransactionsAreToldApart(t *testing.T) {
	const before = "--max-txn-ops=4608" // of embedded members of earlier versions
	for url, want := range map[string]int{testetcd.NewMember(t): objdb.ManyOps, testetcd.NewProcess(t, before).URL: 4500, testetcd.NewProcess(t).URL: objdb.FewOps} {
		l := openLedger(t, lead(t, testdb.Open(t, objdb.Config{Endpoints: []string{url}})))
		if got := maxOps(t, l); got != want {
			t.Errorf("%d operations, want %d", got, want)
		}
		mustUpdate(t, l, func(tx *Tx) error {
			for i := range want {
				tx.Put(fmt.Sprintf("%sfit/%04d", state, i), nil)
			}
			return nil
		})
		// The next member to answer has a lower limit, and is sent transactions of the limit read before.
		if err := inCommitter(l, func(c *committer) error { c.maxOps = objdb.ManyOps; return nil }); err != nil {
			t.Fatal(err)
		}
		mustUpdate(t, l, func(tx *Tx) error {
			for i := range objdb.ManyOps {
				tx.Put(fmt.Sprintf("%sfit/%04d", state, i), []byte("again"))
			}
			return nil
		})
		if got := maxOps(t, l); got != want {
			t.Errorf("%d operations after a refusal, want %d", got, want)
		}
	}
}

// While members are replaced by newer ones, the next to answer may have a lower transaction limit than the one
// from which the term read it.
func TestAStoreThatTakesFewerOperationsThanBeforeIsWrittenInSmallerTransactions(t *testing.T) {
	const keys = 2 * objdb.FewOps
	puts := func(value string) func(*Tx) error {
		return func(tx *Tx) error {
			for i := range keys {
				tx.Put(fmt.Sprintf("%sfewer/%04d", state, i), []byte(value))
			}
			return nil
		}
	}
	together := func(string, []byte, []byte) (int, bool) { return 0, true }
	for how, update := range map[string]func(*Ledger) (int64, error){
		"a plan":                     func(l *Ledger) (int64, error) { return l.Update(t.Context(), puts("new")) },
		"a plan that is meant large": func(l *Ledger) (int64, error) { return l.UpdateLarge(t.Context(), puts("new")) },
		"a plan that was decided then": func(l *Ledger) (int64, error) {
			return l.UpdateLarge(t.Context(), func(tx *Tx) error {
				tx.group.maxOps = objdb.FewOps // as if read from another member
				return puts("new")(tx)
			})
		},
	} {
		t.Run(how, func(t *testing.T) {
			db := testdb.Open(t, objdb.Config{Endpoints: []string{testetcd.NewProcess(t).URL}})
			l, err := Open(t.Context(), lead(t, db), Config{Owned: []string{state, model}, Order: together})
			if err != nil {
				t.Fatal(err)
			}
			if err := inCommitter(l, func(c *committer) error { c.maxOps = objdb.ManyOps; return nil }); err != nil {
				t.Fatal(err)
			}
			if _, err := update(l); err != nil {
				t.Fatal(err)
			}
			kvs, _, err := db.List(t.Context(), state+"fewer/")
			if err != nil || len(kvs) != keys {
				t.Errorf("%d keys, %v", len(kvs), err)
			}
			mustUpdate(t, l, puts("newest"))
		})
	}
}

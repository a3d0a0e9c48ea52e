package ledger

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

func TestAnEditByAnotherHandIsNotOverwritten(t *testing.T) {
	l, db, _ := newLedger(t)
	mustUpdate(t, l, increment(state+"n"))
	for i := range 20 {
		testdb.Put(t, db, state+"n", strconv.Itoa(100*(i+1)))
		mustUpdate(t, l, increment(state+"n"))
		if got, want := testdb.Value(t, db, state+"n"), strconv.Itoa(100*(i+1)+1); got != want {
			t.Fatalf("round %d: got %s, want %s", i, got, want)
		}
	}
}

func TestAConflictIsFoundByTheGuardsWhenTheWatchIsLate(t *testing.T) {
	l, db, seen := newLedger(t)
	mustUpdate(t, l, increment(state+"n"))
	runs := 0
	mustUpdate(t, l, func(tx *Tx) error {
		runs++
		err := increment(state + "n")(tx)
		if runs == 1 { // this runs in the committer, so the event cannot be absorbed
			testdb.Put(t, db, state+"n", "50")
		}
		return err
	})
	if got := testdb.Value(t, db, state+"n"); got != "51" || runs != 2 || seen.conflicts.Load() != 1 {
		t.Errorf("value %s after %d runs and %d conflicts", got, runs, seen.conflicts.Load())
	}
}

// Writes of other clients arrive by watch. A write costs at most one more run of the plans that it conflicts with,
// and no listing of the store.
func TestAConflictDoesNotListTheStore(t *testing.T) {
	l, db, seen := newLedger(t)
	if err := inCommitter(l, func(c *committer) error { c.patience = time.Minute; return nil }); err != nil {
		t.Fatal(err)
	}
	plans := 0
	conflicts := func(writes int64, write func()) {
		t.Helper()
		plans++
		loaded, before := listedAt(t, l), seen.conflicts.Load()
		disturbed := false
		mustUpdate(t, l, func(tx *Tx) error {
			n := 0
			tx.Range(state+"many/", func(string, []byte) bool { n++; return true })
			tx.Put(state+"count", fmt.Appendf(nil, "plan %d counts %d", plans, n))
			if !disturbed {
				disturbed = true
				write()
			}
			return nil
		})
		if listedAt(t, l) != loaded {
			t.Error("everything was read again")
		}
		if got := seen.conflicts.Load() - before; got == 0 || got > writes {
			t.Errorf("%d conflicts", got)
		}
	}
	conflicts(1, func() { testdb.Put(t, db, state+"many/one", "x") })
	conflicts(2, func() { testdb.Put(t, db, state+"many/one", "y"); testdb.Put(t, db, state+"many/two", "x") })
	if got := testdb.Value(t, db, state+"count"); got != "plan 2 counts 2" {
		t.Errorf("counted %s", got)
	}
}

func TestKeysAddedToARangeThatAPlanReadAreFound(t *testing.T) {
	l, db, _ := newLedger(t)
	count := func(tx *Tx) (n int) {
		tx.Range(state+"many/", func(string, []byte) bool { n++; return true })
		return n
	}
	runs := 0
	mustUpdate(t, l, func(tx *Tx) error {
		runs++
		tx.Put(state+"count", []byte(strconv.Itoa(count(tx))))
		if runs == 1 {
			testdb.Put(t, db, state+"many/new", "x")
		}
		return nil
	})
	if got := testdb.Value(t, db, state+"count"); got != "1" {
		t.Errorf("counted %s after %d runs", got, runs)
	}
}

func TestARangeThatLostItsNewestKeyInTheSameBatchIsNoConflict(t *testing.T) {
	l, db, seen := newLedger(t)
	testdb.Put(t, db, state+"many/old", "x")
	testkit.Eventually(t, time.Minute, "the other's write arrives", func() bool { return held(l, state+"many/old") == "x" })
	mustUpdate(t, l, func(tx *Tx) error { tx.Put(state+"many/new", []byte("x")); return nil })
	mustUpdate(t, l, func(tx *Tx) error {
		tx.Delete(state + "many/new")
		n := 0
		tx.Range(state+"many/", func(string, []byte) bool { n++; return true })
		tx.Put(state+"count", []byte(strconv.Itoa(n)))
		return nil
	})
	if got := testdb.Value(t, db, state+"count"); got != "1" || seen.conflicts.Load() != 0 {
		t.Errorf("counted %s with %d conflicts", got, seen.conflicts.Load())
	}
}

func TestEndlessConflictsAreAnError(t *testing.T) {
	l, db, _ := newLedger(t)
	runs := 0
	_, err := l.Update(context.Background(), func(tx *Tx) error {
		runs++
		testdb.Put(t, db, state+"n", strconv.Itoa(runs))
		return increment(state + "n")(tx)
	})
	if !fault.Is(err, fault.Conflict) || runs != maxTries {
		t.Errorf("%d runs, %v", runs, err)
	}
	mustUpdate(t, l, increment(state+"n"))
}

func TestWhatOthersWriteArrivesInViews(t *testing.T) {
	l, db, _ := newLedger(t)
	sees := func(want string) func() bool {
		return func() bool {
			got := ""
			_ = l.View(func(r Reader) error { v, _ := r.Get(state + "oper"); got = string(v); return nil })
			return got == want
		}
	}
	testdb.Put(t, db, state+"oper", "up")
	testkit.Eventually(t, time.Minute, "put is seen", sees("up"))
	testdb.Delete(t, db, state+"oper")
	testkit.Eventually(t, time.Minute, "deletion is seen", sees(""))
	mustUpdate(t, l, func(tx *Tx) error { tx.Put(state+"oper", []byte("mine")); return nil })
	mustUpdate(t, l, func(tx *Tx) error { tx.Delete(state + "oper"); return nil })
	testdb.Put(t, db, state+"oper", "theirs")
	testkit.Eventually(t, time.Minute, "put after own deletion is seen", sees("theirs"))
}

func TestALedgerEndsWithItsTermAndAnotherLeaderIsNotOverwritten(t *testing.T) {
	url := testetcd.New(t)
	db := testdb.Open(t, objdb.Config{Endpoints: []string{url}})
	term := lead(t, db)
	l := openLedger(t, term)
	mustUpdate(t, l, increment(state+"n"))

	// The lock is removed without this process noticing.
	kvs, _, err := db.List(context.Background(), objdb.LockKey(term.Lock())+"/")
	if err != nil || len(kvs) != 1 {
		t.Fatal(kvs, err)
	}
	testdb.Delete(t, db, kvs[0].Key)
	_, err = l.Update(context.Background(), increment(state+"n"))
	if !fault.Is(err, fault.NotLeader) {
		t.Errorf("fenced write: %v", err)
	}
	if term.Context().Err() == nil {
		t.Error("the term goes on")
	}
	if got := testdb.Value(t, db, state+"n"); got != "1" {
		t.Errorf("n is %s", got)
	}
	if _, err := l.Update(context.Background(), increment(state+"n")); !fault.Is(err, fault.NotLeader) {
		t.Errorf("write after the end: %v", err)
	}
	if err := l.View(func(Reader) error { return nil }); !fault.Is(err, fault.NotLeader) {
		t.Errorf("view after the end: %v", err)
	}
}

// Another client's write may have a lower revision than an own commit and still be on its way when the next plan
// reads a range with both.
func TestAForeignWriteBelowAnOwnCommitIsFoundByTheGuardOfARange(t *testing.T) {
	l, db, _ := newLedger(t)
	large := make([]byte, objdb.MaxTxnBytes*2/3) // one such value for a transaction
	committing, queued := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		mustUpdate(t, l, func(tx *Tx) error {
			close(committing)
			<-queued
			tx.Put(state+"first", nil)
			return nil
		})
	})
	<-committing
	// The committer takes the next two together and, as they are too large for one group, commits them one after the
	// other without reading the watch.
	submit := func(plan func(*Tx) error) *submission {
		s := newSubmission(context.Background(), plan)
		if !l.small.put(s) {
			t.Fatal("the term has ended")
		}
		return s
	}
	wrote := false
	own := submit(func(tx *Tx) error {
		if !wrote {
			wrote = true
			testdb.Put(t, db, state+"many/foreign", "x")
		}
		tx.Put(state+"many/own", []byte("x"))
		tx.Put(state+"large/1", large)
		return nil
	})
	counting := submit(func(tx *Tx) error {
		n := 0
		tx.Range(state+"many/", func(string, []byte) bool { n++; return true })
		tx.Put(state+"count", []byte(strconv.Itoa(n)))
		tx.Put(state+"large/2", large)
		return nil
	})
	close(queued)
	all.Wait()
	for _, s := range []*submission{own, counting} {
		if <-s.done; s.err != nil {
			t.Fatal(s.err)
		}
	}
	if got := testdb.Value(t, db, state+"count"); got != "2" {
		t.Errorf("counted %s of 2 keys", got)
	}
}

// The guards of thousands of own keys below a range must fit into a transaction.
func TestARangeFullOfOwnKeysFitsIntoATransaction(t *testing.T) {
	l, db, _ := newLedger(t)
	for round := range 20 {
		mustUpdate(t, l, func(tx *Tx) error {
			n := 0
			tx.Range(state+"many/", func(string, []byte) bool { n++; return true })
			for i := range 400 {
				tx.Put(fmt.Sprintf("%smany/%d-%d", state, round, i), nil)
			}
			tx.Put(state+"count", []byte(strconv.Itoa(n)))
			return nil
		})
		if kvs, _, err := db.List(context.Background(), journalRoot); err != nil || len(kvs) != 0 {
			t.Fatalf("%d keys in the journal, %v", len(kvs), err)
		}
	}
	if got := testdb.Value(t, db, state+"count"); got != "7600" {
		t.Errorf("counted %s", got)
	}
}

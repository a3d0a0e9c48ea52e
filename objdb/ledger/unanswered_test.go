package ledger

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// keeper is a relay between a ledger and its store. It holds the first transaction that contains words: its sender
// gets no answer, and the test decides when it is applied.
type keeper struct {
	words string
	then  func(testetcd.Request) (answer []byte, err error) // handles later requests; nil: they pass

	mu   sync.Mutex
	kept *testetcd.Request
}

func (k *keeper) pass(r testetcd.Request) ([]byte, error) {
	k.mu.Lock()
	first := k.kept == nil
	keep := first && k.has(r)
	if keep {
		k.kept = &r
	}
	k.mu.Unlock()
	switch {
	case keep:
		return nil, testetcd.ErrNoAnswer
	case first || k.then == nil:
		return r.Send()
	}
	return k.then(r)
}

func (k *keeper) has(r testetcd.Request) bool {
	return r.Method == "Txn" && bytes.Contains(r.Body, []byte(k.words))
}

// arrive sends the held transaction to the store.
func (k *keeper) arrive(t *testing.T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil {
		t.Error("nothing was kept")
	} else if _, err := k.kept.Send(); err != nil {
		t.Error(err)
	}
}

// A commit of which a part is lost on its way is applied once, whatever had no answer, and its caller gets no
// error.
func TestAPlanHappensOnceAlthoughSomethingOfItGotLost(t *testing.T) {
	url := testetcd.New(t)
	near := testdb.At(t, url)
	for name, words := range map[string]string{
		"the commit of a small plan": state + "n\x12",
		"a part of a large one":      "/000000\x12",
		"that all parts are there":   "/prepared\x12",
	} {
		t.Run(name, func(t *testing.T) {
			way := &keeper{words: words}
			l := openLedger(t, lead(t, testdb.At(t, testetcd.NewRelay(t, url, way.pass))))
			before := listedAt(t, l)
			mustUpdate(t, l, increment(state+"n"))
			if _, err := l.UpdateLarge(t.Context(), generation(name)); err != nil {
				t.Error(err)
			}
			way.arrive(t)
			if got := held(l, state+"generation/0000"); got != name {
				t.Errorf("got %s", got)
			}
			if listedAt(t, l) != before {
				t.Error("everything was read again")
			}
		})
	}
	if n := testdb.Value(t, near, state+"n"); n != "3" {
		t.Errorf("counted %s", n)
	}
}

// The transaction that sets a key of a damaged journal aside may be applied after it was retried: it must not
// affect the next journal.
func TestWhatSetsAJournalAsideAndArrivesLateLeavesTheNextOne(t *testing.T) {
	url := testetcd.New(t)
	near := testdb.At(t, url)
	for _, name := range []string{"committed", "prepared", "000000"} {
		t.Run("the "+name, func(t *testing.T) { // the lock's name ends with this
			way := &keeper{words: "/" + name + "\x12"} // the key that is put
			term := lead(t, testdb.At(t, testetcd.NewRelay(t, url, way.pass)))
			key := journalOf(term).prefix + name
			testdb.Put(t, near, key, "damaged")
			testdb.Put(t, near, journalOf(term).committed(), "damaged")
			if _, err := Open(t.Context(), term, Config{Owned: []string{state}}); !fault.Is(err, fault.Unavailable) {
				t.Fatalf("a ledger before its journal is set aside, %v", err)
			}
			openLedger(t, term)
			testdb.Put(t, near, key, "next")
			way.arrive(t)
			if kv, err := near.Get(t.Context(), key); string(kv.Value) != "next" {
				t.Errorf("%q, %v", kv.Value, err)
			}
		})
	}
}

// lastOfLarge is in the transaction that stores the last keys of a generation.
var lastOfLarge = fmt.Sprintf("%sgeneration/%04d\x12", state, many-1)

// A key that a large plan has put may be deleted before the whole plan is stored. It stays deleted when the next
// leader completes the plan.
func TestWhatIsDeletedWhileALargePlanIsStoredStaysDeleted(t *testing.T) {
	url := testetcd.New(t)
	near := testdb.At(t, url)
	way := &keeper{words: lastOfLarge}
	way.then = func(r testetcd.Request) ([]byte, error) {
		if way.has(r) {
			return nil, testetcd.ErrNoAnswer // never stored in this term
		}
		return r.Send()
	}
	term := campaign(t, testdb.At(t, testetcd.NewRelay(t, url, way.pass)), "far", time.Minute)
	l := openLedger(t, term)
	outcome := make(chan error, 1)
	go func() {
		_, err := l.UpdateLarge(context.Background(), generation("x"))
		outcome <- err
	}()
	testkit.Eventually(t, time.Minute, "the last transaction is sent", func() bool {
		way.mu.Lock()
		defer way.mu.Unlock()
		return way.kept != nil
	})
	mustUpdate(t, l, func(tx *Tx) error { tx.Delete(state + "generation/0000"); return nil })
	depose(t, near)
	resign(t, term)
	if err := <-outcome; !fault.Is(err, fault.Unavailable) {
		t.Fatalf("it was stored: %v", err)
	}
	next := campaign(t, near, "next", time.Minute)
	t.Cleanup(func() { resign(t, next) })
	l = openLedger(t, next)
	if got := held(l, state+"generation/0000"); got != "-" {
		t.Errorf("it came back: %s", got)
	}
	if got := held(l, strings.TrimSuffix(lastOfLarge, "\x12")); got != "x" {
		t.Errorf("the last key is %s", got)
	}
}

// The request that stores a part of a large plan may be applied again, while the plan is still being stored: keys
// deleted since stay deleted.
func TestAPartThatArrivesLateIsNotStoredAgain(t *testing.T) {
	url := testetcd.New(t)
	near := testdb.At(t, url)
	way := &keeper{words: state + "generation/0000\x12"}
	deleted := 0
	way.then = func(r testetcd.Request) ([]byte, error) {
		if r.Method == "Txn" && bytes.Contains(r.Body, []byte(lastOfLarge)) && deleted == 0 {
			stored, _, err := near.List(t.Context(), state+"generation/")
			if err != nil {
				t.Error(err)
			}
			for _, kv := range stored {
				testdb.Delete(t, near, kv.Key)
			}
			deleted = len(stored)
			way.arrive(t)
		}
		return r.Send()
	}
	l := openLedger(t, lead(t, testdb.At(t, testetcd.NewRelay(t, url, way.pass))))
	if _, err := l.UpdateLarge(t.Context(), generation("x")); err != nil {
		t.Fatal(err)
	}
	kvs, _, err := near.List(t.Context(), state+"generation/")
	if err != nil || deleted == 0 || len(kvs) != many-deleted {
		t.Errorf("%d keys are there, want all of %d but %d that were deleted: %v", len(kvs), many, deleted, err)
	}
}

// The journal of a plan is deleted while a part is not stored. That part is never applied, and no longer visible,
// even if no other plan is run.
func TestWhatIsLostWithItsJournalIsSeenNoMore(t *testing.T) {
	url := testetcd.New(t)
	near := testdb.At(t, url)
	var l *Ledger
	relay := testetcd.NewRelay(t, url, func(r testetcd.Request) ([]byte, error) {
		if r.Method == "Txn" && bytes.Contains(r.Body, []byte(lastOfLarge)) {
			testdb.Delete(t, near, l.journal.committed())
		}
		return r.Send()
	})
	l = openLedger(t, lead(t, testdb.At(t, relay)))
	if _, err := l.UpdateLarge(t.Context(), generation("x")); !fault.Is(err, fault.Conflict) {
		t.Fatalf("the plan without its journal: %v", err)
	}
	kvs, _, err := near.List(t.Context(), state+"generation/")
	if err != nil || len(kvs) >= many {
		t.Fatalf("%d of %d are stored, %v", len(kvs), many, err)
	}
	testkit.Eventually(t, time.Minute, "what is seen is what is stored", func() bool {
		seen := 0
		err := l.View(func(r Reader) error {
			r.Range(state+"generation/", func(string, []byte) bool { seen++; return true })
			return nil
		})
		return err == nil && seen == len(kvs)
	})
}

// The record of a plan's stored parts is deleted while a part is not stored. The rest is stored nevertheless, and
// no key twice.
func TestAPlanIsStoredThoughItsNoteIsDeleted(t *testing.T) {
	url := testetcd.New(t)
	near := testdb.At(t, url)
	var l *Ledger
	var once sync.Once
	relay := testetcd.NewRelay(t, url, func(r testetcd.Request) ([]byte, error) {
		if r.Method == "Txn" && bytes.Contains(r.Body, []byte(lastOfLarge)) && bytes.Contains(r.Body, []byte("/stored\x12")) {
			once.Do(func() {
				testdb.Delete(t, near, l.journal.stored(fmt.Sprintf("%x-%x", l.term.Epoch(), 1)), state+"generation/0000")
			})
		}
		return r.Send()
	})
	l = openLedger(t, lead(t, testdb.At(t, relay)))
	outcome := make(chan error, 1)
	go func() {
		_, err := l.UpdateLarge(context.Background(), generation("x"))
		outcome <- err
	}()
	select {
	case err := <-outcome:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it is tried again and again")
	}
	if kvs, _, err := near.List(t.Context(), state+"generation/"); err != nil || len(kvs) != many-1 {
		t.Errorf("%d of %d keys are there, one of which was deleted since: %v", len(kvs), many, err)
	}
}

// A full store accepts transactions that only delete. A large plan that frees space is stored.
func TestALargePlanThatDeletesIsStoredWhenTheStoreIsFull(t *testing.T) {
	url := testetcd.New(t)
	var filled, full atomic.Bool
	relay := testetcd.NewRelay(t, url, func(r testetcd.Request) ([]byte, error) {
		var txn pb.TxnRequest
		if r.Method == "Txn" && full.Load() && proto.Unmarshal(r.Body, &txn) == nil &&
			slices.ContainsFunc(txn.Success, func(op *pb.RequestOp) bool { return op.GetRequestPut() != nil }) {
			return nil, rpctypes.ErrGRPCNoSpace
		}
		if r.Method == "Txn" && filled.Load() && bytes.Contains(r.Body, []byte(`{"attempt":`)) {
			defer full.Store(true)
		}
		return r.Send()
	})
	l := openLedger(t, lead(t, testdb.At(t, relay)))
	mustUpdate(t, l, generation("x"))
	filled.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := l.UpdateLarge(ctx, func(tx *Tx) error {
		for i := range many {
			tx.Delete(fmt.Sprintf("%sgeneration/%04d", state, i))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// The last transaction of a large plan is applied, but has no answer. Before it is retried, another client writes
// one of its keys, or the state is listed again. The plan is then complete, at a revision not before that of the
// transaction.
func TestALargePlanThatIsFoundStoredIsDone(t *testing.T) {
	last := strings.TrimSuffix(lastOfLarge, "\x12")
	for name, reread := range map[string]bool{"by another try": false, "in a listing": true} {
		t.Run(name, func(t *testing.T) {
			url := testetcd.New(t)
			near := testdb.At(t, url)
			lost := make(chan struct{})
			var once sync.Once
			relay := testetcd.NewRelay(t, url, func(r testetcd.Request) (answer []byte, err error) {
				answer, err = r.Send()
				if r.Method == "Txn" && bytes.Contains(r.Body, []byte(lastOfLarge)) {
					once.Do(func() {
						if !reread {
							testdb.Put(t, near, last, "other")
						}
						answer, err = nil, testetcd.ErrNoAnswer
						close(lost)
					})
				}
				return answer, err
			})
			l := openLedger(t, lead(t, testdb.At(t, relay)))
			type result struct {
				rev int64
				err error
			}
			outcome := make(chan result, 1)
			go func() {
				rev, err := l.UpdateLarge(context.Background(), generation("x"))
				outcome <- result{rev, err}
			}()
			<-lost
			if reread {
				if err := inCommitter(l, func(c *committer) error { return c.reload(context.Background()) }); err != nil {
					t.Fatal(err)
				}
			}
			got := <-outcome
			if got.err != nil {
				t.Fatal(got.err)
			}
			mustUpdate(t, l, increment(state+"n"))
			if want := map[bool]string{true: "x", false: "other"}[reread]; held(l, last) != want {
				t.Errorf("the last key is %s", held(l, last))
			}
			newest := int64(0)
			kvs, _, err := near.List(t.Context(), state+"generation/")
			for _, kv := range kvs {
				if string(kv.Value) == "x" {
					newest = max(newest, kv.ModRevision)
				}
			}
			if err != nil || len(kvs) != many || got.rev < newest {
				t.Errorf("%d keys, %v; told %d, the newest is of %d", len(kvs), err, got.rev, newest)
			}
			mustUpdate(t, l, generation("y")) // the next plan is possible
		})
	}
}

// The mark of a large plan is sent twice. The first one, without an answer, is applied right before the second
// one, or not at all, and the term ends then. The caller is never told that nothing was applied.
func TestALargePlanWhoseMarkHadNoAnswerIsNotSaidToHaveFailed(t *testing.T) {
	for name, c := range map[string]struct {
		arrives bool
		deposed bool // before the second one; otherwise the store does not answer again
		said    string
	}{
		"it has happened":               {arrives: true, deposed: true, said: "committed, and left to the next leader"},
		"it has happened, nobody knows": {arrives: true, said: "unknown outcome"},
		"it has not happened":           {deposed: true, said: "unknown outcome"},
	} {
		t.Run(name, func(t *testing.T) {
			url := testetcd.New(t)
			near := testdb.At(t, url)
			again := make(chan struct{})
			way := &keeper{words: `{"attempt":`}
			way.then = func(r testetcd.Request) ([]byte, error) {
				select {
				case <-again:
					if !c.deposed && r.Method == "Range" {
						return nil, status.Error(codes.DeadlineExceeded, "no answer, which is not asked for again")
					}
				default:
					if way.has(r) {
						defer close(again)
						if c.arrives {
							way.arrive(t)
						}
						if c.deposed {
							depose(t, near)
						}
					}
				}
				return r.Send()
			}
			term := campaign(t, testdb.At(t, testetcd.NewRelay(t, url, way.pass)), "far", time.Minute)
			l := openLedger(t, term)
			outcome := make(chan error, 1)
			go func() {
				_, err := l.UpdateLarge(context.Background(), generation("new"))
				outcome <- err
			}()
			select {
			case <-again:
			case err := <-outcome:
				t.Fatalf("its mark was not sent twice: %v", err)
			}
			resign(t, term)
			if err := <-outcome; !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), c.said) {
				t.Errorf("got %v", err)
			}
			next := campaign(t, near, "next", time.Minute)
			t.Cleanup(func() { resign(t, next) })
			if want := map[bool]string{true: "new", false: "-"}[c.arrives]; held(openLedger(t, next), state+"generation/0000") != want {
				t.Errorf("the next leader does not have %s", want)
			}
		})
	}
}

// The mark of a large plan may happen when the plan is stored and its journal dropped: it marks nothing then, as it
// would stand in the way of all large plans after it.
func TestAMarkThatArrivesLateMarksNothing(t *testing.T) {
	url := testetcd.New(t)
	near := testdb.At(t, url)
	way := &keeper{words: `{"attempt":`}
	l := openLedger(t, lead(t, testdb.At(t, testetcd.NewRelay(t, url, way.pass))))
	if _, err := l.UpdateLarge(t.Context(), generation("x")); err != nil {
		t.Fatal(err)
	}
	way.arrive(t)
	if kv, err := near.Get(t.Context(), l.journal.committed()); !fault.Is(err, fault.NotFound) {
		t.Errorf("there is a mark: %s, %v", kv.Value, err)
	}
	if _, err := l.UpdateLarge(t.Context(), generation("y")); err != nil || held(l, state+"generation/0000") != "y" {
		t.Errorf("the next plan: %v", err)
	}
}

// depose deletes the candidate of a lock, as the expiry of its lease does.
func depose(t *testing.T, db *objdb.DB) {
	kvs, _, err := db.List(context.Background(), objdb.LockKey(lock)+"/")
	if err != nil || len(kvs) != 1 {
		t.Errorf("%d candidates, %v", len(kvs), err)
	}
	for _, kv := range kvs {
		testdb.Delete(t, db, kv.Key)
	}
}

package objdb

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// disturbed is a store whose leader gets no answer to one transaction about a key.
type disturbed struct {
	term *Term
	near *DB

	about   atomic.Pointer[string] // the key; nil: nothing is disturbed
	happens bool                   // the transaction is applied nevertheless
	before  func()                 // what happens before that; nil: nothing
	said    error                  // the answer; nil: none
	away    atomic.Bool            // no requests pass
	full    atomic.Bool            // candidates' keys are refused
	kept    *testetcd.Request
}

func disturb(t *testing.T, patience time.Duration) *disturbed {
	t.Helper()
	d := &disturbed{}
	url := testetcd.New(t)
	relay := testetcd.NewRelay(t, url, func(r testetcd.Request) ([]byte, error) {
		about := d.about.Load()
		switch {
		case d.away.Load():
			return nil, testetcd.ErrNoAnswer
		case d.full.Load() && r.Method == "Txn" && bytes.Contains(r.Body, []byte(d.term.fence+"\x12")):
			return nil, rpctypes.ErrGRPCNoSpace
		case about == nil || r.Method != "Txn" || !bytes.Contains(r.Body, []byte(*about)):
			return r.Send()
		}
		d.about.Store(nil)
		d.kept = &r
		if d.before != nil {
			d.before()
		}
		if d.happens {
			if _, err := r.Send(); err != nil {
				return nil, err
			}
		}
		return nil, cmp.Or(d.said, testetcd.ErrNoAnswer)
	})
	d.near = open(t, Config{Endpoints: []string{url}})
	d.term = campaign(t, open(t, Config{Endpoints: []string{relay}, RequestTimeout: patience}), "far", time.Minute)
	t.Cleanup(func() { d.away.Store(false); resign(t, d.term) })
	return d
}

// loses sets that the next transaction about a key gets no answer, and whether it is applied.
func (d *disturbed) loses(key string, happens bool) {
	d.happens = happens
	d.about.Store(&key)
}

// The error of a member that has not proposed the transaction, and that of gRPC if a member ends in the middle of
// its answer.
var (
	errDropped = status.Error(codes.Unknown, "raft proposal dropped")
	errCutOff  = status.Error(codes.Internal, "server closed the stream without sending trailers")
)

// After a transaction without an answer, Commit determines whether it was applied: it is applied once, and
// reported correctly.
func TestACommitWithoutAnAnswerHappensOnce(t *testing.T) {
	d := disturb(t, requestLimit)
	a, b := state+"a", state+"b"
	for name, txn := range map[string]func(old KV) Txn{
		"put":     func(old KV) Txn { return Txn{If: []Guard{Unchanged(old)}, Puts: []KV{{Key: a, Value: []byte("new")}}} },
		"made":    func(KV) Txn { return Txn{If: []Guard{Absent(b)}, Puts: []KV{{Key: b, Value: []byte("new")}}} },
		"deleted": func(old KV) Txn { return Txn{If: []Guard{Unchanged(old)}, Deletes: []string{a}} },
		"moved": func(old KV) Txn {
			return Txn{If: []Guard{Unchanged(old), Absent(b)}, Puts: []KV{{Key: b, Value: old.Value}}, Deletes: []string{a}}
		},
		"as it was":     func(KV) Txn { return Txn{Puts: []KV{{Key: a, Value: []byte("old")}}} },
		"that is there": func(KV) Txn { return Txn{Puts: []KV{{Key: a, Value: []byte("old")}, {Key: b}}} },
	} {
		for _, happens := range []bool{true, false} {
			put(t, d.term.DB(), a, "old")
			del(t, d.term.DB(), b)
			old, err := d.near.Get(t.Context(), a)
			if err != nil {
				t.Fatal(err)
			}
			want := txn(old)
			d.loses(state, happens)
			rev, ok, err := d.term.Commit(t.Context(), want)
			if !ok || err != nil || rev <= old.ModRevision {
				t.Errorf("%s, happens %t: at %d, %t, %v", name, happens, rev, ok, err)
			}
			if d.about.Load() != nil {
				t.Fatal("nothing was disturbed")
			}
			written := int64(0)
			for _, kv := range want.Puts {
				now, err := d.near.Get(t.Context(), kv.Key)
				if err != nil || string(now.Value) != string(kv.Value) || now.ModRevision != rev {
					t.Errorf("%s, happens %t, at %d: %+v, %v", name, happens, rev, now, err)
				}
				written = now.ModRevision
			}
			for _, key := range want.Deletes {
				if _, err := d.near.Get(t.Context(), key); !fault.Is(err, fault.NotFound) {
					t.Errorf("%s, happens %t: %s is there, %v", name, happens, key, err)
				}
				if _, err := d.near.GetAt(t.Context(), key, rev-1); err != nil {
					t.Errorf("%s, happens %t, told at %d: %v at the revision before", name, happens, rev, err)
				}
			}
			if _, err := d.kept.Send(); err != nil { // it arrives once more
				t.Error(err)
			}
			for _, kv := range want.Puts {
				if now, err := d.near.Get(t.Context(), kv.Key); err != nil || now.ModRevision != written {
					t.Errorf("%s has happened twice: %+v, %v", name, now, err)
				}
			}
		}
	}
}

// A member whose leader hands over drops proposals for a moment; a member that ends may have proposed.
func TestACommitThatAMemberHasDroppedIsSentAgain(t *testing.T) {
	d := disturb(t, requestLimit)
	for i, c := range []struct {
		said    error
		happens bool
	}{{errDropped, false}, {errCutOff, false}, {errCutOff, true}} {
		d.said = c.said
		key := state + fmt.Sprint("dropped", i)
		d.loses(key, c.happens)
		rev, ok, err := d.term.Commit(t.Context(), Txn{If: []Guard{Absent(key)}, Puts: []KV{{Key: key}}})
		if !ok || err != nil {
			t.Errorf("%v: %t, %v", c.said, ok, err)
		}
		if kv, err := d.near.Get(t.Context(), key); err != nil || kv.ModRevision != rev {
			t.Errorf("%v: told at %d: %+v, %v", c.said, rev, kv, err)
		}
	}
}

// A commit whose context ends between two attempts is known not to have been applied, and leaves nothing open.
func TestACommitThatIsGivenUpBetweenTwoTriesIsKnown(t *testing.T) {
	d := disturb(t, requestLimit)
	d.said = errDropped
	key, first := state+"dropped", 20*time.Millisecond
	limit := first
	testkit.Eventually(t, time.Minute, "it is given up between two tries", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		d.loses(key, false)
		_, ok, err := d.term.Commit(ctx, Txn{Puts: []KV{{Key: key}}})
		limit += RetryFirst / 4
		if ok {
			limit = first
		}
		return err != nil && strings.Contains(err.Error(), "not committed")
	})
	if d.term.commits.open {
		t.Error("it is open")
	}
}

// A commit that was given up has no effect if it arrives after another commit: not even if its guards hold again.
func TestACommitThatArrivesLateDoesNothing(t *testing.T) {
	d := disturb(t, requestLimit)
	key := state + "late"
	txn := Txn{If: []Guard{Absent(key)}, Puts: []KV{{Key: key}}}
	d.loses(key, false)
	for _, txn := range []Txn{txn, {Deletes: []string{key}}} {
		if _, ok, err := d.term.Commit(t.Context(), txn); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	if _, err := d.kept.Send(); err != nil {
		t.Fatal(err)
	}
	if kv, err := d.near.Get(t.Context(), key); !fault.Is(err, fault.NotFound) {
		t.Errorf("what was deleted has come back: %+v, %v", kv, err)
	}
}

// After a long outage the outcome of a commit is open until the next commit. After that it cannot be applied.
func TestACommitIsOpenUntilTheNextOne(t *testing.T) {
	d := disturb(t, time.Second)
	key, next := state+"open", state+"next"
	d.away.Store(true)
	began := time.Now()
	_, ok, err := d.term.Commit(t.Context(), Txn{Puts: []KV{{Key: key}}})
	if ok || !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "unknown outcome") {
		t.Errorf("%t, %v", ok, err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	_, ok, err = d.term.Commit(t.Context(), Txn{Puts: []KV{{Key: next}}})
	if ok || !fault.Is(err, fault.Unavailable) || strings.Contains(err.Error(), "unknown outcome") {
		t.Errorf("what was not sent: %t, %v", ok, err)
	}
	d.away.Store(false)
	testkit.Eventually(t, time.Minute, "the next one", func() bool {
		_, ok, err := d.term.Commit(t.Context(), Txn{Puts: []KV{{Key: next}}})
		return ok && err == nil
	})
	if d.term.commits.open {
		t.Error("it may still happen")
	}
}

// If the keys have writes of other clients, their order is unknown, and so is the outcome of the commit.
func TestACommitAmongWritesOfOthersIsUnknown(t *testing.T) {
	d := disturb(t, requestLimit)
	key := state + "shared"
	d.before = func() { // any sooner, the term might know of it
		if _, _, err := d.near.Txn(t.Context(), Txn{Puts: []KV{{Key: key, Value: []byte("theirs")}}}); err != nil {
			t.Error(err)
		}
	}
	d.loses(key, false)
	if _, ok, err := d.term.Commit(t.Context(), Txn{Puts: []KV{{Key: key, Value: []byte("ours")}}}); ok || err == nil || !strings.Contains(err.Error(), "unknown outcome") {
		t.Errorf("%t, %v", ok, err)
	}
}

// With a full store the outcome of a commit cannot be determined; deletions are still possible.
func TestAFullStoreTakesDeletionsAfterALostAnswer(t *testing.T) {
	d := disturb(t, requestLimit)
	key := state + "large"
	put(t, d.near, key, "large")
	d.full.Store(true)
	d.loses(key, false)
	for i := range 2 {
		_, ok, err := d.term.Commit(t.Context(), Txn{Deletes: []string{key}})
		if lost := i == 0; ok == lost || (err != nil) != lost {
			t.Errorf("%t, %v", ok, err)
		}
	}
	if kv, err := d.near.Get(t.Context(), key); !fault.Is(err, fault.NotFound) {
		t.Errorf("%+v, %v", kv, err)
	}
}

// A member may return "no space" for a transaction that it has applied. A transaction that was not applied is
// reported as refused.
func TestACommitThatAFullStoreHasTakenIsToldSo(t *testing.T) {
	d := disturb(t, requestLimit)
	d.said = rpctypes.ErrGRPCNoSpace
	for _, happens := range []bool{true, false} {
		key := state + fmt.Sprint("taken ", happens)
		d.loses(key, happens)
		rev, ok, err := d.term.Commit(t.Context(), Txn{If: []Guard{Absent(key)}, Puts: []KV{{Key: key}}})
		if ok != happens || fault.Is(err, fault.Exhausted) == happens {
			t.Errorf("happens %t: %t, %v", happens, ok, err)
		}
		if kv, err := d.near.Get(t.Context(), key); happens && (err != nil || kv.ModRevision != rev) {
			t.Errorf("told at %d: %+v, %v", rev, kv, err)
		}
	}
	if d.term.commits.open {
		t.Error("it is open")
	}
}

// The late write of an earlier commit without an answer does not count as that of a commit refused by a full
// store.
func TestACommitThatAFullStoreHasRefusedIsNotTakenForAnEarlierOne(t *testing.T) {
	d := disturb(t, requestLimit)
	first, second := KV{Key: state + "first", Value: []byte("same")}, KV{Key: state + "second"}
	d.full.Store(true)
	d.loses(first.Key, false)
	if _, ok, err := d.term.Commit(t.Context(), Txn{If: []Guard{Absent(first.Key)}, Puts: []KV{first}}); ok || err == nil {
		t.Fatalf("%t, %v", ok, err)
	}
	if _, err := d.kept.Send(); err != nil {
		t.Fatal(err)
	}
	d.said = rpctypes.ErrGRPCNoSpace
	d.loses(second.Key, false)
	if rev, ok, err := d.term.Commit(t.Context(), Txn{Puts: []KV{first, second}}); ok || err == nil {
		t.Errorf("told that it has happened, at %d", rev)
	}
	d.full.Store(false)
	if err := d.term.Settle(t.Context()); err != nil {
		t.Error(err)
	}
}

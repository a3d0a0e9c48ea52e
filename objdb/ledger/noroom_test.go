package ledger

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// A member checks its quota twice: before it proposes a transaction, when it refuses it, and again when it applies
// it. In the second case it returns "no space", too, although the transaction is applied (quotaApplierV3.Txn in
// etcd's etcdserver/apply/quota.go). A plan whose caller gets that error must not be in the store.
func TestAPlanThatTheStoreHadNoRoomForHasNotHappened(t *testing.T) {
	for round := range 8 {
		url := testetcd.NewSmall(t, 24<<20)
		near := testdb.At(t, url)
		l := openLedger(t, lead(t, testdb.At(t, url)))
		ctx, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup // other clients, like agents
		for w := range 4 {
			others.Go(func() {
				for ctx.Err() == nil {
					put := objdb.KV{Key: fmt.Sprintf("/elsewhere/%d", w), Value: make([]byte, 64<<10)}
					if _, _, err := near.Txn(ctx, objdb.Txn{Puts: []objdb.KV{put}}); fault.Is(err, fault.Exhausted) {
						return
					}
				}
			})
		}
		key, err := "", error(nil)
		for i := 0; err == nil; i++ {
			key = fmt.Sprintf("%sn%d", state, i)
			_, err = l.Update(t.Context(), func(tx *Tx) error { tx.Put(key, make([]byte, 64<<10)); return nil })
		}
		stop()
		others.Wait()
		if !fault.Is(err, fault.Exhausted) {
			t.Fatal(err)
		}
		if kv, there := near.Get(t.Context(), key); !fault.Is(there, fault.NotFound) {
			t.Fatalf("round %d: %s is in the store since revision %d (%v), and its caller was told: %v", round, key, kv.ModRevision, there, err)
		}
	}
}

// The same for the mark of a large plan, with a store that always answers so: a refused plan is not completed by
// the next leader.
func TestALargePlanThatTheStoreHadNoRoomForIsNotFinishedLater(t *testing.T) {
	url := testetcd.New(t)
	near := testdb.At(t, url)
	var full, cut atomic.Bool
	way := testetcd.NewRelay(t, url, func(r testetcd.Request) ([]byte, error) {
		mark := keeper{words: "/committed\x12"}
		switch {
		case cut.Load():
			return nil, testetcd.ErrNoAnswer // the process has ended
		case full.Load() && mark.has(r):
			_, err := r.Send() // as when it is applied
			cut.Store(true)
			if err != nil {
				return nil, err
			}
			return nil, rpctypes.ErrGRPCNoSpace
		}
		return r.Send()
	})
	term := lead(t, testdb.At(t, way))
	l := openLedger(t, term)
	full.Store(true)
	told := make(chan error, 1)
	go func() { _, err := l.UpdateLarge(context.Background(), generation("a")); told <- err }()
	testkit.Eventually(t, time.Minute, "the mark is put", cut.Load)
	testkit.Eventually(t, time.Minute, "the term is over", func() bool {
		_, err := near.Get(t.Context(), objdb.LockKey(term.Lock()))
		if err == nil {
			deleteFence(t, near, term)
		}
		return fault.Is(err, fault.NotFound)
	})
	cut.Store(false)
	full.Store(false)
	err := <-told
	next, failed := near.Campaign(t.Context(), objdb.CampaignConfig{Lock: term.Lock(), Value: "next", TTL: time.Minute})
	if failed != nil {
		t.Fatal(failed)
	}
	defer resign(t, next)
	after := openLedger(t, next)
	if got := held(after, state+"generation/0000"); got != "-" && fault.Is(err, fault.Exhausted) {
		t.Errorf("the next leader has finished the plan (%q), and its caller was told: %v", got, err)
	}
}

// deleteFence ends a term in the store, as the expiry of its lease does.
func deleteFence(t *testing.T, db *objdb.DB, term *objdb.Term) {
	t.Helper()
	kvs, _, err := db.List(t.Context(), objdb.LockKey(term.Lock())+"/")
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{objdb.LockKey(term.Lock())}
	for _, kv := range kvs {
		keys = append(keys, kv.Key)
	}
	testdb.Delete(t, db, keys...)
}

// A full store still accepts deletions. One must not be refused because of puts of other plans in the same group:
// plans that change or rewrite existing keys are admitted.
func TestADeletionInAFullStoreIsNotRefusedForThePutsOfOthers(t *testing.T) {
	db := testdb.At(t, testetcd.NewSmall(t, 16<<20))
	l := openLedger(t, lead(t, db))
	others := map[string]func(*Tx) error{
		"to count up": increment(state + "counter"),
		"to rewrite":  func(tx *Tx) error { tx.Rewrite(state + "counter"); return nil },
	}
	mustUpdate(t, l, increment(state+"counter"))
	for name := range others {
		mustUpdate(t, l, increment(state+name))
	}
	large, err := make([]byte, 1<<20), error(nil)
	for i := 0; err == nil && i < 100; i++ {
		_, _, err = db.Txn(t.Context(), objdb.Txn{Puts: []objdb.KV{{Key: fmt.Sprint("/large/", i), Value: large}}})
	}
	if !fault.Is(err, fault.Exhausted) {
		t.Fatalf("filling the store: %v", err)
	}
	for name, plan := range others {
		var put, deleted error
		var both sync.WaitGroup
		err = inCommitter(l, func(*committer) error { // afterwards it takes the two at once
			both.Go(func() { _, put = l.Update(context.Background(), plan) })
			both.Go(func() {
				_, deleted = l.Update(context.Background(), func(tx *Tx) error { tx.Delete(state + name); return nil })
			})
			testkit.Eventually(t, time.Minute, "both wait", func() bool {
				l.small.mu.Lock()
				defer l.small.mu.Unlock()
				return len(l.small.waiting) == 2
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		both.Wait()
		if !fault.Is(put, fault.Exhausted) {
			t.Errorf("%s: %v", name, put)
		}
		if deleted != nil {
			t.Errorf("%s: the deletion was refused for what another plan puts: %v", name, deleted)
		}
	}
}

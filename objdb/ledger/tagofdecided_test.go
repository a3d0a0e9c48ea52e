package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// tagOf returns the tag of a key as readers see it; 0: it has none yet.
func tagOf(t *testing.T, l *Ledger, key string) (tag int64) {
	t.Helper()
	err := l.View(func(r Reader) (err error) { tag, err = r.Tag(key); return err })
	if err != nil && !errors.Is(err, ErrStoring) {
		t.Fatal(err)
	}
	return tag
}

// by returns a plan that increments a counter if a key has a tag.
func by(key string, tag int64) func(*Tx) error {
	return func(tx *Tx) error {
		now, err := tx.Tag(key)
		if err == nil && now != tag {
			err = fault.New(fault.Conflict, "it is %d, not %d", now, tag)
		}
		if err != nil {
			return err
		}
		return increment(state + "counter")(tx)
	}
}

// Clients that have read a key write with its tag as condition: it must not change when a large plan is stored,
// and the write must not be refused, as no other change was made. A plan with a revision that the store has
// already reported, as by a watch, waits.
func TestATagStaysWhileNobodyChangesItsKey(t *testing.T) {
	url := testetcd.New(t)
	goOn := make(chan struct{})
	l := openLedger(t, lead(t, testdb.At(t, testetcd.NewRelay(t, url, func(r testetcd.Request) ([]byte, error) {
		answer, err := r.Send()
		if r.Method == "Txn" && bytes.Contains(r.Body, []byte("/stored\x12")) {
			<-goOn // applied, but the ledger does not know yet
		}
		return answer, err
	}))))
	key, other := state+"generation/0000", state+"other"
	mustUpdate(t, l, increment(other))
	told := make(chan error, 1)
	go func() { _, err := l.UpdateLarge(context.Background(), generation("a")); told <- err }()
	testkit.Eventually(t, time.Minute, "the plan has happened", func() bool { return held(l, key) == "a" })
	if tag := tagOf(t, l, key); tag != 0 {
		t.Errorf("while it is stored its tag is %d", tag)
	}
	if err := l.Preview(t.Context(), by(key, 1)); !errors.Is(err, ErrStoring) {
		t.Errorf("a preview: %v", err)
	}
	if tagOf(t, l, other) == 0 {
		t.Error("another key has no tag")
	}
	near, stored := testdb.At(t, url), objdb.KV{}
	testkit.Eventually(t, time.Minute, "it is in the store", func() (there bool) {
		var err error
		stored, err = near.Get(t.Context(), key)
		return err == nil
	})
	waits := make(chan error, 1)
	go func() { _, err := l.Update(context.Background(), by(key, stored.ModRevision)); waits <- err }()
	testkit.Eventually(t, time.Minute, "the plan is taken", func() bool {
		l.small.mu.Lock()
		defer l.small.mu.Unlock()
		return len(l.small.waiting) == 1
	})
	close(goOn)
	if err := errors.Join(<-told, <-waits); err != nil {
		t.Error(err)
	}
	if tag := tagOf(t, l, key); tag != stored.ModRevision {
		t.Errorf("its tag is %d, and the store has it of %d", tag, stored.ModRevision)
	}
}

// A plan that reads a tag while a large plan is stored runs again once it is, instead of being refused for an
// unknown tag; the tag of another key is returned at once.
func TestAPlanByATagThatIsNotKnownYetWaits(t *testing.T) {
	url := testetcd.New(t)
	goOn := make(chan struct{})
	l := openLedger(t, lead(t, testdb.At(t, testetcd.NewRelay(t, url, func(r testetcd.Request) ([]byte, error) {
		select {
		case <-goOn:
		default:
			if r.Method == "Txn" && bytes.Contains(r.Body, []byte("/stored\x12")) {
				return nil, testetcd.ErrNoAnswer // and is retried
			}
		}
		return r.Send()
	}))))
	key := state + "generation/0000"
	told := make(chan error, 1)
	go func() { _, err := l.UpdateLarge(context.Background(), generation("a")); told <- err }()
	testkit.Eventually(t, time.Minute, "the plan has happened", func() bool { return held(l, key) == "a" })
	waits := make(chan error, 1)
	asked := make(chan struct{}, 100)
	go func() {
		_, err := l.Update(context.Background(), func(tx *Tx) error {
			tag, err := tx.Tag(key)
			if err != nil {
				asked <- struct{}{}
				return err
			}
			return fault.New(fault.Conflict, "%d", tag)
		})
		waits <- err
	}()
	<-asked
	if _, err := l.Update(t.Context(), by(state+"other", 1)); !fault.Is(err, fault.Conflict) {
		t.Errorf("by the tag of another key: %v", err)
	}
	select {
	case err := <-waits:
		close(goOn)
		t.Fatalf("it was told at once: %v", err)
	default:
	}
	close(goOn)
	if err := <-told; err != nil {
		t.Error(err)
	}
	if err := <-waits; !fault.Is(err, fault.Conflict) || fault.As(err).Error() != fmt.Sprint(tagOf(t, l, key)) {
		t.Errorf("%v, and the tag is %d", err, tagOf(t, l, key))
	}
}

// Tags also remain those of the store if the leader changes meanwhile: the plan completed by the next one has the
// store's revisions.
func TestTagsAreThoseOfTheStoreAfterAChangeOfLeader(t *testing.T) {
	url := testetcd.New(t)
	near := testdb.At(t, url)
	way := &keeper{words: "/stored\x12", then: func(testetcd.Request) ([]byte, error) { return nil, testetcd.ErrNoAnswer }}
	term := lead(t, testdb.At(t, testetcd.NewRelay(t, url, way.pass)))
	l := openLedger(t, term)
	go func() { _, _ = l.UpdateLarge(context.Background(), generation("a")) }()
	key := state + "generation/0000"
	testkit.Eventually(t, time.Minute, "the plan is being stored", func() bool {
		way.mu.Lock()
		defer way.mu.Unlock()
		return way.kept != nil
	})
	way.arrive(t)           // part of it is stored
	tag := tagOf(t, l, key) // of the stored part, if already known
	if kv, err := near.Get(t.Context(), key); err != nil || tag != 0 && tag != kv.ModRevision {
		t.Errorf("told %d, and the store has %+v, %v", tag, kv, err)
	}
	deleteFence(t, near, term)
	testdb.Delete(t, near, objdb.LockKey(term.Lock()))
	next, err := near.Campaign(t.Context(), objdb.CampaignConfig{Lock: term.Lock(), Value: "next", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer resign(t, next)
	after := openLedger(t, next)
	for _, key := range []string{key, state + "generation/0299"} {
		kv, err := near.Get(t.Context(), key)
		if tag := tagOf(t, after, key); err != nil || tag != kv.ModRevision {
			t.Errorf("%s: the tag is %d, and the store has %+v, %v", key, tag, kv, err)
		}
		if _, err := after.Update(t.Context(), by(key, kv.ModRevision)); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

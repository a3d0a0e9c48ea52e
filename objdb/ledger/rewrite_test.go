package ledger

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
)

// Rewrite stores a value once more, unchanged, also if other plans of the transaction change it; no other value
// is.
func TestARewrittenValueIsStoredOnceMore(t *testing.T) {
	db := testdb.New(t)
	before := testdb.Put(t, db, state+"a", "1")
	term := campaign(t, db, "a", time.Minute)
	defer resign(t, term)
	l, err := Open(context.Background(), term, Config{Owned: []string{state}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		plan   func(*Tx)
		want   string
		stored bool
	}{
		"rewritten":           {func(tx *Tx) { tx.Rewrite(state + "a") }, "1", true},
		"the same":            {func(tx *Tx) { tx.Put(state+"a", []byte("1")) }, "1", false},
		"absent":              {func(tx *Tx) { tx.Rewrite(state + "b") }, "1", false},
		"undone":              {func(tx *Tx) { _ = tx.Try(func() error { tx.Rewrite(state + "a"); return context.Canceled }) }, "1", false},
		"changed and back":    {func(tx *Tx) { tx.Put(state+"a", []byte("2")); tx.Put(state+"a", []byte("1")) }, "1", false},
		"changed, as it was":  {func(tx *Tx) { tx.Rewrite(state + "a"); tx.Put(state+"a", []byte("1")) }, "1", true},
		"twice in one plan":   {func(tx *Tx) { tx.Rewrite(state + "a"); tx.Rewrite(state + "a") }, "1", true},
		"in a large plan":     {func(tx *Tx) { _ = generation("3")(tx); tx.Rewrite(state + "a") }, "1", true},
		"with what is judged": {func(tx *Tx) { tx.Get(state + "a"); tx.Rewrite(state + "a") }, "1", true},
	} {
		if _, err := l.Update(context.Background(), func(tx *Tx) error { c.plan(tx); return nil }); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		kv, err := db.Get(context.Background(), state+"a")
		if err != nil || string(kv.Value) != c.want || (kv.ModRevision > before) != c.stored {
			t.Errorf("%s: %q at revision %d after %d, %v", name, kv.Value, kv.ModRevision, before, err)
		}
		before = kv.ModRevision
	}
	// The guard has the store's present revision.
	if _, err := l.Update(context.Background(), func(tx *Tx) error { tx.Put(state+"a", []byte("9")); return nil }); err != nil {
		t.Error(err)
	}
	if _, err := db.Get(context.Background(), state+"b"); err == nil {
		t.Error("what was absent was made")
	}
}

// If values are encrypted, the writes of plans and the journals of large plans are, too.
func TestPlansAndTheirJournalsAreSealed(t *testing.T) {
	values := &testdb.Values{}
	db := testdb.Open(t, objdb.Config{Endpoints: []string{testetcd.New(t)}, Values: values})
	term := campaign(t, db, "a", time.Minute)
	defer resign(t, term)
	l, err := Open(context.Background(), term, Config{Owned: []string{state}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.UpdateLarge(context.Background(), generation("canary")); err != nil {
		t.Fatal(err)
	}
	seen := 0
	_ = l.View(func(r Reader) error {
		r.Range(state, func(_ string, value []byte) bool { seen++; return string(value) == "canary" })
		return nil
	})
	all, last, err := db.List(context.Background(), state)
	if err != nil || seen != len(all) || seen < objdb.FewOps {
		t.Fatalf("%d values read, %d there, %v", seen, len(all), err)
	}
	journals := 0
	for rev := int64(2); rev <= last; rev++ {
		for _, prefix := range []string{state, journalRoot} {
			stored, _, err := db.ListAt(objdb.AsStored(context.Background()), prefix, rev)
			if err != nil {
				t.Fatal(err)
			}
			for _, kv := range stored {
				if prefix == journalRoot {
					journals++
				}
				if !objdb.IsSealed(kv.Key, kv.Value) || bytes.Contains(kv.Value, []byte("canary")) || bytes.Contains(kv.Value, []byte("Y2FuYXJ5")) {
					t.Fatalf("at revision %d %s is stored as %.60q", rev, kv.Key, kv.Value)
				}
			}
		}
	}
	if journals == 0 {
		t.Error("no journal was seen")
	}
}

package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb/internal/testdb"
)

// Derived changes of a plan are written with it, whatever its size; a failure to derive refuses the plan.
func TestWhatFollowsFromAPlanIsAPartOfIt(t *testing.T) {
	db := testdb.New(t)
	testdb.Put(t, db, state+"a", "1")
	testdb.Put(t, db, state+"b", "1")
	term := campaign(t, db, "a", time.Minute)
	defer resign(t, term)
	refused := errors.New("that must not be")
	const follows = state + "follows"
	l, err := Open(context.Background(), term, Config{Owned: []string{state}, Derive: func(tx *Tx) error {
		var all []string
		tx.Changes(func(key string, before, now []byte) bool {
			all = append(all, fmt.Sprintf("%s %s>%s", strings.TrimPrefix(key, state), before, now))
			return len(all) < 3
		})
		if strings.Contains(all[0], "forbidden") {
			return refused
		}
		tx.Put(follows, []byte(strings.Join(all, ", ")))
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	put := func(tx *Tx, key, value string) { tx.Put(state+key, []byte(value)) }
	for _, c := range []struct {
		name string
		plan func(*Tx) error
		want string // derived changes
		err  error
	}{
		{"a change", func(tx *Tx) error { put(tx, "a", "2"); return nil }, "a 1>2", nil},
		{"nothing", func(tx *Tx) error { put(tx, "a", "2"); tx.Get(state + "b"); return nil }, "a 1>2", nil},
		{"twice the same key", func(tx *Tx) error { put(tx, "a", "3"); tx.Delete(state + "b"); put(tx, "a", "4"); return nil }, "a 2>4, b 1>", nil},
		{"what was undone", func(tx *Tx) error {
			_ = tx.Try(func() error { put(tx, "a", "5"); put(tx, "c", "1"); return refused })
			put(tx, "d", "1")
			put(tx, "a", "6")
			return nil
		}, "d >1, a 4>6", nil},
		{"what is refused", func(tx *Tx) error { put(tx, "forbidden", "1"); return nil }, "d >1, a 4>6", refused},
		{"more than fits into a transaction", generation("1"), "generation/0000 >1, generation/0001 >1, generation/0002 >1", nil},
	} {
		if _, err := l.Update(context.Background(), c.plan); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.name, err)
		}
		_ = l.View(func(r Reader) error {
			if got, _ := r.Get(follows); string(got) != c.want {
				t.Errorf("%s: %q follows, want %q", c.name, got, c.want)
			}
			return nil
		})
	}
	if _, err := l.UpdateLarge(context.Background(), generation("2")); err != nil {
		t.Fatal(err)
	}
	kv, err := db.Get(context.Background(), follows)
	if want := "generation/0000 1>2, generation/0001 1>2, generation/0002 1>2"; err != nil || string(kv.Value) != want {
		t.Errorf("a large plan: %q follows, %v; want %q", kv.Value, err, want)
	}
	if _, err := db.Get(context.Background(), state+"forbidden"); err == nil {
		t.Error("what was refused was written")
	}
}

package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/test/testkit"
)

// byLength counts the values below state by their length.
var byLength = Index{Prefix: state, Terms: func(_ string, value []byte) []string { return []string{CountedTerm(fmt.Sprint(len(value)))} }}

// byWord indexes the values below state by their words.
var byWord = Index{Prefix: state, Terms: func(_ string, value []byte) []string { return strings.Fields(string(value)) }}

func indexedLedger(t testing.TB) (*Ledger, *objdb.DB) {
	t.Helper()
	db := testdb.New(t)
	testdb.Put(t, db, state+"old", "red green")
	l, err := Open(context.Background(), lead(t, db), Config{Owned: []string{state, model}, Indexes: []Index{byWord}})
	if err != nil {
		t.Fatal(err)
	}
	return l, db
}

// holding returns the keys with a word, as a view or plan sees them.
func holding(r Reader, word string) []string {
	var keys []string
	r.Search(word, "", func(term, key string) bool {
		if term == word {
			keys = append(keys, key[len(state):])
		}
		return true
	})
	return keys
}

func TestValuesAreFoundByWhatIsInThemFromTheFirstViewOn(t *testing.T) {
	l, db := indexedLedger(t)
	check := func(when, word string, want ...string) {
		t.Helper()
		err := l.View(func(r Reader) error {
			if got := holding(r, word); !slices.Equal(got, want) {
				t.Errorf("%s: %s is in %v, want %v", when, word, got, want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	check("loaded", "red", "old")
	mustUpdate(t, l, func(tx *Tx) error {
		tx.Put(state+"new", []byte("green blue"))
		tx.Put(model+"elsewhere", []byte("green"))
		if got := holding(tx, "green"); !slices.Equal(got, []string{"new", "old"}) {
			t.Errorf("a plan does not find what it wrote: %v", got)
		}
		return nil
	})
	check("written", "green", "new", "old")
	_, _ = l.Update(context.Background(), func(tx *Tx) error {
		tx.Delete(state + "old")
		tx.Put(state+"new", []byte("red"))
		return fmt.Errorf("refused")
	})
	check("undone", "green", "new", "old")
	check("undone", "red", "old")
	mustUpdate(t, l, func(tx *Tx) error {
		tx.Delete(state + "old")
		tx.Put(state+"new", []byte("blue red"))
		return nil
	})
	check("changed", "green")
	check("changed", "red", "new")

	testdb.Put(t, db, state+"theirs", "blue")
	testkit.Eventually(t, time.Minute, "what others write is found", func() (found bool) {
		_ = l.View(func(r Reader) error {
			found = slices.Equal(holding(r, "blue"), []string{"new", "theirs"})
			return nil
		})
		return found
	})
}

// Whatever the history of a tree, its entries are those of a tree built from its records.
func TestAnIndexAgreesWithTheRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.Map(rapid.IntRange(0, 9), func(i int) string { return fmt.Sprintf("%s%d", state, i) })
		value := rapid.SampledFrom([]string{"", "a", "b", "a b", "b a", "c c"})
		b := newGroup(buildTree(nil, byWord, byLength), prefixes{state}, newCorruption(testkit.Quiet()))
		for range rapid.IntRange(1, 10).Draw(t, "plans") {
			fails := rapid.Bool().Draw(t, "fails")
			_, _ = b.add(context.Background(), func(tx *Tx) error {
				for range rapid.IntRange(0, 4).Draw(t, "writes") {
					_ = tx.Try(func() error {
						if rapid.Bool().Draw(t, "deletes") {
							tx.Delete(key.Draw(t, "key"))
						} else {
							tx.Put(key.Draw(t, "key"), []byte(value.Draw(t, "value")))
						}
						if rapid.Bool().Draw(t, "part fails") {
							return fmt.Errorf("undone")
						}
						return nil
					})
				}
				if fails {
					return fmt.Errorf("refused")
				}
				return nil
			})
		}
		var kvs []objdb.KV
		ascend(b.tree, state, func(r record) bool {
			kvs = append(kvs, objdb.KV{Key: r.key, Value: r.value})
			return true
		})
		list := func(t *tree) (all []entry) {
			t.search("", "", func(term, key string) bool { all = append(all, entry{term, key}); return true })
			return all
		}
		if got, want := list(b.tree), list(buildTree(kvs, byWord)); !slices.Equal(got, want) {
			t.Fatalf("entries %v, want %v", got, want)
		}
		lengths := map[int]int{}
		for _, kv := range kvs {
			lengths[len(kv.Value)]++
		}
		for length := range 4 {
			if got := b.tree.count(fmt.Sprint(length)); got != lengths[length] {
				t.Fatalf("%d values of %d bytes, want %d", got, length, lengths[length])
			}
		}
		if got := b.tree.counts.Len(); got != len(lengths) {
			t.Fatalf("%d counts are kept, want %d", got, len(lengths))
		}
		if got, want := len(b.changes()), len(kvs); got != want { // the base is empty
			t.Fatalf("%d changes, want %d", got, want)
		}
	})
}

package ledger

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/contiv/netplugin/objdb/internal/testdb"
)

// byNumber indexes values by the numbers of two bytes each that they consist of.
var byNumber = Index{Prefix: state, Terms: func(_ string, value []byte) []string {
	var terms []string
	for _, digits := range strings.Fields(string(value)) {
		terms = append(terms, "#set/"+digits)
	}
	return terms
}}

// TestTheNextFreeNumberIsTheOneAScanFinds assigns numbers to keys and removes them, also the same number to
// several keys, in a tree and in clones that must not change.
func TestTheNextFreeNumberIsTheOneAScanFinds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// Whole blocks are assigned at once, so that blocks become full.
		number := rapid.Custom(func(t *rapid.T) uint16 {
			return uint16(rapid.SampledFrom([]int{0, 1, 2, 254, 255}).Draw(t, "high"))<<8 |
				uint16(rapid.SampledFrom([]int{0, 1, 63, 64, 128, 254, 255}).Draw(t, "low"))
		})
		tree := buildTree(nil, byNumber)
		taken := map[string][]uint16{} // by key
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			before := tree.Clone()
			wasFree := before.nextFree("#set/", []byte{0, 0})
			tree = before.Clone()
			key := state + rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "key")
			delete(taken, key)
			tree.Delete(record{key: key})
			if rapid.Bool().Draw(rt, "put") {
				from := number.Draw(rt, "from")
				count := rapid.SampledFrom([]int{1, 2, 256, 700}).Draw(rt, "count")
				var digits []string
				for n := int(from); n < int(from)+count && n <= 0xffff; n++ {
					taken[key] = append(taken[key], uint16(n))
					digits = append(digits, NumberTerm("", []byte{byte(n >> 8), byte(n)})[len("#/"):])
				}
				tree.ReplaceOrInsert(record{key: key, value: []byte(strings.Join(digits, " "))})
			}
			if got := before.nextFree("#set/", []byte{0, 0}); !bytes.Equal(got, wasFree) {
				rt.Fatalf("a clone changed: %x, was %x", got, wasFree)
			}
			for range 5 {
				from := number.Draw(rt, "ask")
				want := scan(taken, from)
				if got := tree.nextFree("#set/", []byte{byte(from >> 8), byte(from)}); !bytes.Equal(got, want) {
					rt.Fatalf("from %04x on %x is free, want %x", from, got, want)
				}
			}
		}
		for key := range taken {
			tree.Delete(record{key: key})
		}
		if n := tree.blocks.Len(); n != 0 {
			rt.Fatalf("%d blocks are left of nothing", n)
		}
	})
}

func scan(taken map[string][]uint16, from uint16) []byte {
	for n := int(from); n <= 0xffff; n++ {
		free := true
		for _, has := range taken {
			free = free && !slices.Contains(has, uint16(n))
		}
		if free {
			return []byte{byte(n >> 8), byte(n)}
		}
	}
	return nil
}

func TestAFullSetHasNoFreeNumber(t *testing.T) {
	tree := buildTree(nil, byNumber)
	for n := range 256 {
		tree.ReplaceOrInsert(record{key: state + string(rune('0'+n)), value: []byte(NumberTerm("", []byte{byte(n)})[len("#/"):])})
	}
	if free := tree.nextFree("#set/", []byte{0}); free != nil {
		t.Errorf("%x is free", free)
	}
	if free := tree.nextFree("#other/", []byte{7}); !bytes.Equal(free, []byte{7}) {
		t.Errorf("in an empty set %x is free, want 07", free)
	}
}

func TestAPlanSeesTheNumbersOfThoseBeforeIt(t *testing.T) {
	l, err := Open(t.Context(), lead(t, testdb.New(t)), Config{Owned: []string{state, model}, Indexes: []Index{byNumber}})
	if err != nil {
		t.Fatal(err)
	}
	mustUpdate(t, l, func(tx *Tx) error {
		tx.Put(state+"a", []byte("0000 0001"))
		if free, ok := tx.NextFree("set", []byte{0, 0}); !ok || !bytes.Equal(free, []byte{0, 2}) {
			t.Errorf("%x is free", free)
		}
		_ = tx.Try(func() error {
			tx.Put(state+"b", []byte("0002"))
			tx.Delete(state + "a")
			return errConflict
		})
		if free, _ := tx.NextFree("set", []byte{0, 0}); !bytes.Equal(free, []byte{0, 2}) {
			t.Errorf("after a part was undone %x is free", free)
		}
		return nil
	})
	err = l.View(func(r Reader) error {
		if free, _ := r.NextFree("set", []byte{0, 1}); !bytes.Equal(free, []byte{0, 2}) {
			t.Errorf("once committed %x is free", free)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

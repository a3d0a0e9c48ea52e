package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/contiv/netplugin/test/testkit"
)

var errRefused = errors.New("refused")

// A group without a store, for what a plan does in memory.
func newPlanning() *group {
	return newGroup(buildTree(nil), prefixes{state}, newCorruption(testkit.Quiet()))
}

// What a refused part costs must not depend on what was written before it.
func TestRefusedPartsOfALargePlanCostTheirOwnWritesOnly(t *testing.T) {
	const (
		parts = 40000
		most  = 20 << 10 // bytes of memory a part; with the whole plan each time a megabyte
	)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := newPlanning().add(context.Background(), func(tx *Tx) error {
		for i := range parts {
			err := tx.Try(func() error {
				tx.Put(fmt.Sprintf("%s%d", state, i), nil)
				if i%2 == 1 {
					return errRefused
				}
				return nil
			})
			if (err != nil) != (i%2 == 1) {
				return fmt.Errorf("part %d: %v", i, err)
			}
		}
		return nil
	})
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / parts; err != nil || each > most {
		t.Errorf("%v, %d bytes a part", err, each)
	}
}

// After a refused part the plan has written what it would have without it.
func TestARefusedPartLeavesNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tx := newTx(context.Background(), newPlanning())
		key := rapid.StringMatching("[a-e]")
		write := func() {
			for range rapid.IntRange(0, 4).Draw(t, "writes") {
				if key := state + key.Draw(t, "key"); rapid.Bool().Draw(t, "deletes") {
					tx.Delete(key)
				} else {
					tx.Put(key, []byte(rapid.StringMatching("[xyz]").Draw(t, "value")))
				}
			}
		}
		for range rapid.IntRange(1, 4).Draw(t, "parts") {
			write()
			before := maps.Clone(tx.wrote)
			count := len(tx.undo)
			_ = tx.Try(func() error {
				write()
				return errRefused
			})
			if diff := cmp.Diff(before, tx.wrote); diff != "" || len(tx.undo) != count {
				t.Fatalf("places of writes: %s, %d instead of %d", diff, len(tx.undo), count)
			}
		}
	})
}

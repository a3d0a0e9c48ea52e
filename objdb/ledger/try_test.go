package ledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/contiv/netplugin/test/testkit"
)

var errRefused = errors.New("refused")

// newPlanning returns a group without a store, for the work of a plan in memory.
func newPlanning() *group {
	return newGroup(buildTree(nil), prefixes{state}, newCorruption(testkit.Quiet()))
}

// The cost of a refused part must not depend on earlier writes: with eight times as many parts, each costs the
// same.
func TestRefusedPartsOfALargePlanCostTheirOwnWritesOnly(t *testing.T) {
	each := func(parts int) time.Duration {
		return testkit.Least(t, 3, func() { tryParts(t, parts) })[0] / time.Duration(parts)
	}
	if few, many := each(2000), each(16000); many > 4*few {
		t.Errorf("a part costs %v among 2,000, and %v among 16,000", few, many)
	}
}

// tryParts plans count parts, of which each second one is refused.
func tryParts(t *testing.T, parts int) {
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
	if err != nil {
		t.Error(err)
	}
}

// After a refused part the writes of the plan are the same as without it.
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

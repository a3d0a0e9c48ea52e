package ledger

import (
	"context"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/contiv/netplugin/objdb/internal/testdb"
)

// takeNumber stores the lowest number that is free under a key.
func takeNumber(tx *Tx, key string) error {
	free, ok := tx.NextFree("set", []byte{0, 0})
	if !ok {
		return errors.New("no number is free")
	}
	tx.Put(state+"numbers/"+key, []byte(hex.EncodeToString(free)))
	return nil
}

// noneHas is an error if a key is found under a number.
func noneHas(tx *Tx, number string) (err error) {
	tx.Search("#set/"+number, "", func(_, key string) bool {
		err = errors.New(key + " has it")
		return false
	})
	return err
}

// A large plan runs beside the others. What it has searched, or taken because it
// was free, is compared with what they have committed meanwhile.
func TestWhatALargePlanSearchedIsStillSoWhenItHappens(t *testing.T) {
	mine, others := state+"numbers/mine", state+"numbers/others"
	for what, c := range map[string]struct {
		large     bool // too large for one transaction
		plan      func(tx *Tx) error
		meanwhile func(tx *Tx) error
		again     bool
		want      string // number or error
	}{
		"a number, in one transaction": {false, func(tx *Tx) error { return takeNumber(tx, "mine") },
			func(tx *Tx) error { return takeNumber(tx, "others") }, true, "0001"},
		"a number, with a journal": {true, func(tx *Tx) error { return takeNumber(tx, "mine") },
			func(tx *Tx) error { return takeNumber(tx, "others") }, true, "0001"},
		"that nobody has a number": {false, func(tx *Tx) error { tx.Put(mine, []byte("0009")); return noneHas(tx, "0007") },
			func(tx *Tx) error { tx.Put(others, []byte("0007")); return nil }, true, others + " has it"},
		"a number that others do not want": {false, func(tx *Tx) error { return takeNumber(tx, "mine") },
			func(tx *Tx) error { tx.Put(others, []byte("0007")); return nil }, false, "0000"},
	} {
		t.Run(what, func(t *testing.T) {
			db := testdb.New(t)
			l, err := Open(context.Background(), lead(t, db), Config{Owned: []string{state}, Indexes: []Index{byNumber}})
			if err != nil {
				t.Fatal(err)
			}
			runs := 0
			_, err = l.UpdateLarge(context.Background(), func(tx *Tx) error {
				err := c.plan(tx)
				if runs++; runs == 1 {
					if _, failed := l.Update(context.Background(), c.meanwhile); failed != nil {
						t.Error(failed)
					}
				}
				if c.large {
					return errors.Join(err, generation("x")(tx))
				}
				return err
			})
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				got = testdb.Value(t, db, mine)
			}
			if got != c.want || c.again != (runs > 1) {
				t.Errorf("%q after %d runs, want %q", got, runs, c.want)
			}
		})
	}
}

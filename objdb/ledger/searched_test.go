package ledger

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// takeNumber stores the lowest free number under a key.
func takeNumber(tx *Tx, key string) error {
	free, ok := tx.NextFree("set", []byte{0, 0})
	if !ok {
		return errors.New("no number is free")
	}
	tx.Put(state+"numbers/"+key, []byte(hex.EncodeToString(free)))
	return nil
}

// noneHas returns an error if a key is found under a number.
func noneHas(tx *Tx, number string) (err error) {
	tx.Search("#set/"+number, "", func(_, key string) bool {
		err = errors.New(key + " has it")
		return false
	})
	return err
}

// A large plan runs beside other plans. What it has searched, or assigned as free, is compared with what they have
// committed meanwhile.
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

// A commit of unknown outcome assigns a number; it is applied right after the ledger has listed the store again,
// or never: no other plan gets the number.
func TestWhatACommitTookThatArrivesLateIsNotTakenTwice(t *testing.T) {
	url := testetcd.New(t)
	near := testdb.At(t, url)
	way := &keeper{words: "numbers/late"}
	var back atomic.Bool
	var listing sync.Once
	way.then = func(r testetcd.Request) (answer []byte, err error) {
		if !back.Load() {
			return nil, testetcd.ErrNoAnswer
		}
		answer, err = r.Send()
		if r.Method == "Range" && bytes.Contains(r.Body, []byte(state)) {
			listing.Do(func() { way.arrive(t) })
		}
		return answer, err
	}
	far := testdb.Open(t, objdb.Config{Endpoints: []string{testetcd.NewRelay(t, url, way.pass)}, RequestTimeout: 700 * time.Millisecond})
	l := openAs(t, lead(t, far), Config{Owned: []string{state}, Indexes: []Index{byNumber}})
	take := func(key string) error {
		_, err := l.Update(t.Context(), func(tx *Tx) error { return takeNumber(tx, key) })
		return err
	}
	testkit.Eventually(t, time.Minute, "a commit is left open", func() bool { // unless no part of it was sent in time
		err := take("late")
		if err == nil {
			t.Fatal("it was answered")
		}
		return strings.Contains(err.Error(), "unknown outcome")
	})
	back.Store(true)
	testkit.Eventually(t, time.Minute, "the ledger works again", func() bool { return take("next") == nil })
	late, err := near.Get(t.Context(), state+"numbers/late")
	if next := testdb.Value(t, near, state+"numbers/next"); err == nil && string(late.Value) == next {
		t.Errorf("number %s was given twice", next)
	}
	listing.Do(func() { t.Error("nothing was listed") })
}

// What a large plan has read is compared as a whole, also where it has read a part of a prefix again.
func TestRangesJoinToAllThatIsInThem(t *testing.T) {
	r := joined(map[span]struct{}{{"b", "m"}: {}, {"c", "d"}: {}, {"m", "o"}: {}, {"q", "s"}: {}})
	if len(r) != 2 {
		t.Errorf("joined to %v", r)
	}
	for key, want := range map[string]bool{"a": false, "b": true, "c": true, "d": true, "l": true, "m": true, "n": true, "o": false, "p": false, "q": true, "r": true, "s": false} {
		if r.contain(key) != want {
			t.Errorf("%s is in it: %t", key, !want)
		}
	}
}

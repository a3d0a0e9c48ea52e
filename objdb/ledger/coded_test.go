package ledger

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/test/testkit"
)

// counter is a coded value that tells how often it was encoded.
type counter struct {
	n       int
	encoded *int
}

func (c *counter) Decode(data []byte) (err error) { c.n, err = strconv.Atoi(string(data)); return err }
func (c *counter) Clone() counter                 { return *c }
func (c *counter) Encode() ([]byte, error) {
	if c.n < 0 {
		return nil, errors.New("below zero")
	}
	if c.encoded != nil {
		*c.encoded++
	}
	return strconv.AppendInt(nil, int64(c.n), 10), nil
}

func count(key string, by int, encoded *int) func(*Tx) error {
	return func(tx *Tx) error {
		c, err := ReadCoded[counter](tx, key)
		if err != nil {
			return err
		}
		c.n, c.encoded = c.n+by, encoded
		return WriteCoded(tx, key, &c)
	}
}

func TestACodedValueIsEncodedOnceForAllPlansOfABatch(t *testing.T) {
	base := buildTree([]objdb.KV{{Key: state + "n", Value: []byte("5"), ModRevision: 7}})
	b := newGroup(base, prefixes{state}, newCorruption(testkit.Quiet()))
	encoded := 0
	for range 10 {
		if err, _ := b.add(context.Background(), count(state+"n", 1, &encoded)); err != nil {
			t.Fatal(err)
		}
	}
	refused := errors.New("refused")
	err, _ := b.add(context.Background(), func(tx *Tx) error {
		if err := count(state+"n", 100, &encoded)(tx); err != nil {
			return err
		}
		return refused
	})
	if err != refused {
		t.Fatal(err)
	}
	changed, err := b.changes()
	if err != nil || len(changed) != 1 || string(changed[0].value) != "15" || changed[0].base != 7 || encoded != 1 {
		t.Errorf("%+v, %v, encoded %d times", changed, err, encoded)
	}

	// Others see the value as if it had been encoded all along.
	b = newGroup(base, prefixes{state}, newCorruption(testkit.Quiet()))
	err, _ = b.add(context.Background(), func(tx *Tx) error {
		if err := count(state+"n", 1, nil)(tx); err != nil {
			return err
		}
		got, _ := tx.Get(state + "n")
		tx.Range(state, func(_ string, value []byte) bool {
			if string(value) != "6" || string(got) != "6" {
				t.Errorf("got %s, visited %s", got, value)
			}
			return true
		})
		return count(state+"n", -1, nil)(tx)
	})
	if changed, failed := b.changes(); err != nil || failed != nil || len(changed) != 0 {
		t.Errorf("what is put back as it was: %+v, %v, %v", changed, err, failed)
	}
	if got := b.tree.mustGet(t, state+"n"); string(got) != "5" {
		t.Errorf("the tree has %s", got)
	}
}

func (t *tree) mustGet(tb testing.TB, key string) []byte {
	tb.Helper()
	r, ok := t.Get(record{key: key})
	if !ok || r.decoded != nil {
		tb.Fatalf("%s: %v, encoded %v", key, ok, r.decoded == nil)
	}
	return r.value
}

func TestAValueThatCannotBeEncodedIsNotCommitted(t *testing.T) {
	l, db, _ := newLedger(t)
	mustUpdate(t, l, func(tx *Tx) error { return WriteCoded(tx, state+"n", &counter{n: 5}) })
	if _, err := l.Update(t.Context(), count(state+"n", -9, nil)); err == nil {
		t.Error("a value below zero was taken")
	}
	mustUpdate(t, l, count(state+"n", 1, nil))
	if got := testdb.Value(t, db, state+"n"); got != "6" {
		t.Errorf("n is %s", got)
	}
}

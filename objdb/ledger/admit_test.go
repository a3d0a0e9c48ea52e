package ledger

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb/internal/testdb"
)

func TestAFullStoreTakesWhatDoesNotAddToIt(t *testing.T) {
	db := testdb.New(t)
	testdb.Put(t, db, state+"a", "1")
	testdb.Put(t, db, state+"b", "1")
	term := campaign(t, db, "a", time.Minute)
	defer resign(t, term)
	full := errors.New("the store is full")
	l, err := Open(context.Background(), term, Config{Owned: []string{state}, Admit: func() error { return full }})
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		plan func(tx *Tx)
		want error
	}{
		"addition":               {func(tx *Tx) { tx.Put(state+"new", []byte("1")) }, full},
		"replacement":            {func(tx *Tx) { tx.Delete(state + "a"); tx.Put(state+"c", []byte("1")) }, nil},
		"change":                 {func(tx *Tx) { tx.Put(state+"b", []byte("2")) }, nil},
		"deletion with a change": {func(tx *Tx) { tx.Delete(state + "c"); tx.Put(state+"b", []byte("3")) }, nil},
	} {
		for range 2 { // whatever ran before
			if _, err := l.Update(context.Background(), func(tx *Tx) error { c.plan(tx); return nil }); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	kvs, _, err := db.List(context.Background(), state)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range kvs {
		if kv.Key == state+"new" {
			t.Error("the addition was written")
		}
	}
}

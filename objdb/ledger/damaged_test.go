package ledger

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/journals"
)

// A damaged journal is set aside, and does not prevent a term.
func TestADamagedJournalIsSetAside(t *testing.T) {
	db := testdb.New(t)
	ctx := context.Background()
	testdb.Put(t, db, state+"kept", "x")
	for name, keys := range journals.Damaged() {
		t.Run(name, func(t *testing.T) {
			term := lead(t, db)
			j := journalOf(term)
			for key, value := range keys {
				testdb.Put(t, db, j.prefix+key, value)
			}
			l := openLedger(t, term)
			mustUpdate(t, l, increment(state+"n"))
			if kvs, _, err := db.List(ctx, j.prefix); err != nil || len(kvs) != 0 {
				t.Errorf("%d keys of the journal are left, %v", len(kvs), err)
			}
			if got := testdb.Value(t, db, state+"kept"); got != "x" {
				t.Errorf("kept is %s", got)
			}
			kvs, _, err := db.List(ctx, damagedRoot+term.Lock()+"/")
			if err != nil || len(kvs) != len(keys) {
				t.Errorf("%d of %d keys are set aside, %v", len(kvs), len(keys), err)
			}
			for _, kv := range kvs {
				_, key, _ := strings.Cut(strings.TrimPrefix(kv.Key, damagedRoot+term.Lock()+"/"), "/")
				if want, ok := keys[key]; !ok || want != string(kv.Value) {
					t.Errorf("%s is %q, want %q", kv.Key, kv.Value, want)
				}
			}
		})
	}
}

// A leader may die while it sets a damaged journal aside. Its successor finds that journal still damaged, and sets the rest aside: without
// the mark it would delete the rest as that of a plan that was never committed.
func TestTheMarkOfADamagedJournalIsSetAsideLast(t *testing.T) {
	url := testetcd.New(t)
	near := testdb.At(t, url)
	moved := false
	relay := testetcd.NewRelay(t, url, func(r testetcd.Request) ([]byte, error) {
		if r.Method == "Txn" && bytes.Contains(r.Body, []byte(damagedRoot)) {
			if moved {
				return nil, rpctypes.ErrGRPCPermissionDenied // and so are all after it
			}
			moved = true
		}
		return r.Send()
	})
	far := lead(t, testdb.At(t, relay))
	keys := []string{"000000", "000001", "committed"}
	for _, key := range keys {
		testdb.Put(t, near, journalOf(far).prefix+key, "damaged")
	}
	if _, err := Open(t.Context(), far, Config{Owned: []string{state}}); err == nil {
		t.Fatal("a ledger before its journal is set aside")
	}
	resign(t, far)
	openLedger(t, lead(t, near))
	if kvs, _, err := near.List(t.Context(), damagedRoot); err != nil || len(kvs) != len(keys) {
		t.Errorf("%d of %d keys are set aside, %v", len(kvs), len(keys), err)
	}
}

// A journal without an attempt, of an earlier release, is completed.
func TestAJournalOfBeforeIsFinished(t *testing.T) {
	db := testdb.New(t)
	term := lead(t, db)
	j := journalOf(term)
	testdb.Put(t, db, state+"old", "x")
	testdb.Put(t, db, j.prefix+"000000", `[{"key":"/contiv.io/state/new","value":"eA=="}]`)
	testdb.Put(t, db, j.prefix+"000001", `[{"key":"/contiv.io/state/old","delete":true}]`)
	testdb.Put(t, db, j.prefix+"committed", `{"parts":2}`)
	l := openLedger(t, term)
	if held(l, state+"new") != "x" || held(l, state+"old") != "-" {
		t.Errorf("new is %s, old is %s", held(l, state+"new"), held(l, state+"old"))
	}
	if kvs, _, err := db.List(context.Background(), journalRoot); err != nil || len(kvs) != 0 {
		t.Errorf("%d keys of the journal are left, %v", len(kvs), err)
	}
}

// A successor stores together what its predecessor would have stored together.
func TestWhatIsSeenTogetherStaysSoInAJournal(t *testing.T) {
	db := testdb.New(t)
	term := lead(t, db)
	j := journalOf(term)
	changes := make([]change, 2*politeOps)
	for i := range changes {
		changes[i] = change{key: fmt.Sprintf("%sone/%04d", state, i), value: []byte("x"), together: true}
	}
	parts, err := j.encode("a", changes)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		testdb.Put(t, db, part.Key, string(part.Value))
	}
	testdb.Put(t, db, j.prefix+"committed", fmt.Sprintf(`{"attempt":"a","parts":%d}`, len(parts)))
	openLedger(t, term)
	kvs, _, err := db.List(t.Context(), state)
	if err != nil || len(kvs) != len(changes) {
		t.Fatal(len(kvs), err)
	}
	for _, kv := range kvs {
		if kv.ModRevision != kvs[0].ModRevision {
			t.Fatalf("%s is seen at %d, others at %d", kv.Key, kv.ModRevision, kvs[0].ModRevision)
		}
	}
}

// Whatever a journal contains, reading it returns changes of owned keys or an error.
func FuzzJournal(f *testing.F) {
	for _, keys := range journals.Damaged() {
		f.Add(keys["committed"], keys["000000"], keys["stored"])
	}
	f.Add(`{"parts":1,"at":3}`, `[{"key":"/contiv.io/state/a","value":"eA=="},{"key":"/contiv.io/state/b","delete":true}]`, "1")
	j, owned := journal{journalRoot + "l/"}, prefixes{state}
	f.Fuzz(func(t *testing.T, committed, part, stored string) {
		kvs := []objdb.KV{
			{Key: j.part("", 0), Value: []byte(part), CreateRevision: 5, ModRevision: 5},
			{Key: j.committed(), Value: []byte(committed), CreateRevision: 7, ModRevision: 9},
		}
		if stored != "" {
			kvs = append(kvs, objdb.KV{Key: j.stored(""), Value: []byte(stored), CreateRevision: 8, ModRevision: 9})
		}
		d, err := j.decode(kvs, owned)
		if (d == nil) == (err == nil) {
			t.Fatalf("%v, %v", d, err)
		}
		if err != nil {
			return
		}
		if d.mark != 7 || d.at < 0 || d.at > 7 {
			t.Errorf("mark %d, plan at %d", d.mark, d.at)
		}
		for _, c := range d.changes {
			if !owned.contain(c.key) {
				t.Errorf("key %q is not owned", c.key)
			}
		}
		// A journal that was read is written and read again as the same.
		parts, err := j.encode("", d.changes)
		if err != nil || len(d.changes) == 0 {
			return
		}
		kvs[0].Value, kvs[1].Value = parts[0].Value, fmt.Appendf(nil, `{"parts":%d,"at":%d}`, len(parts), d.at)
		again, err := j.decode(append(kvs[:2:2], parts[1:]...), owned)
		if err != nil || again.left() != d.left() {
			t.Errorf("%v, %v", again, err)
		}
	})
}

package mirror

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// soon is how long a mirror may take to notice that the store is another one.
const soon = 3 * time.Second

// present are the keys and values below /m/ as the store has them.
func present(t *testing.T, db *objdb.DB) map[string]string {
	t.Helper()
	kvs, _, err := db.List(context.Background(), "/m/")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, kv := range kvs {
		all[kv.Key] = string(kv.Value)
	}
	return all
}

func holds(t *testing.T, r *replica, db *objdb.DB) {
	t.Helper()
	want := present(t, db)
	testkit.Eventually(t, soon, "the mirror holds what the store has", func() bool { return cmp.Equal(r.contents(), want) })
}

func TestAMirrorFollowsAStoreThatWasReplaced(t *testing.T) {
	for _, token := range []string{"first", "second"} { // the same cluster id, and another
		t.Run(token, func(t *testing.T) {
			t.Parallel() // it mostly waits
			p := testetcd.NewProcess(t)
			db := testdb.At(t, p.URL)
			for i := range 50 {
				testdb.Put(t, db, fmt.Sprint("/m/old", i), "old")
			}
			m, r := follow(t, db)

			p.Replace(token)
			var rev int64
			for i := range 10 {
				rev = testdb.Put(t, db, fmt.Sprint("/m/new", i), "new")
			}
			waitRevision(t, m, rev)
			if want := present(t, db); !cmp.Equal(r.contents(), want) {
				t.Errorf("after waiting for revision %d: %s", rev, cmp.Diff(want, r.contents()))
			}
			holds(t, r, db)
			if m.Revision() > rev+1 {
				t.Errorf("revision is %d, the store's is %d", m.Revision(), rev)
			}
			testdb.Put(t, db, "/m/later", "new")
			holds(t, r, db)
			if !m.Connected() || !m.Synced() {
				t.Errorf("connected %v, synced %v", m.Connected(), m.Synced())
			}
		})
	}
}

func TestAMirrorFollowsAStoreThatWentBack(t *testing.T) {
	t.Parallel() // it mostly waits
	p := testetcd.NewProcess(t)
	db := testdb.At(t, p.URL)
	testdb.Put(t, db, "/m/same", "same")
	testdb.Put(t, db, "/m/changed", "old")
	testdb.Put(t, db, "/m/deleted", "old")
	backup := p.Backup()
	m, r := follow(t, db)
	testdb.Put(t, db, "/m/changed", "lost")
	testdb.Put(t, db, "/m/added", "lost")
	testdb.Delete(t, db, "/m/deleted")
	waitRevision(t, m, testdb.Put(t, db, "/m/last", "lost"))

	p.Restore(backup)
	// The same revision as a lost one, another value.
	rev := testdb.Put(t, db, "/m/changed", "new")
	waitRevision(t, m, rev)
	want := map[string]string{"/m/same": "same", "/m/changed": "new", "/m/deleted": "old"}
	if !cmp.Equal(r.contents(), want) {
		t.Error(cmp.Diff(want, r.contents()))
	}
}

// The store goes back a little and is at a higher revision again before the
// mirror reaches it: only what it has seen itself tells.
func TestAStoreThatWentBackAndWentOnIsRecognized(t *testing.T) {
	t.Parallel() // it mostly waits
	p := testetcd.NewProcess(t)
	db := testdb.At(t, p.URL)
	way := testetcd.NewProxy(t, p.URL)
	testdb.Put(t, db, "/m/a", "old")
	backup := p.Backup()
	m, r := follow(t, testdb.Open(t, objdb.Config{Endpoints: []string{way.URL}, RequestTimeout: time.Second}))
	waitRevision(t, m, testdb.Put(t, db, "/m/lost", "lost"))

	way.Cut()
	testkit.Eventually(t, 5*time.Second, "mirror is cut off", func() bool { return !m.Connected() })
	p.Restore(backup)
	rev := int64(0)
	for i := range 20 {
		rev = testdb.Put(t, db, fmt.Sprint("/m/new", i), "new")
	}
	way.Mend()
	waitRevision(t, m, rev)
	if want := present(t, db); !cmp.Equal(r.contents(), want) {
		t.Error(cmp.Diff(want, r.contents()))
	}
}

func TestNoRevisionIsReachedWhileNobodyKnowsWhichStoreThereIs(t *testing.T) {
	t.Parallel() // it mostly waits
	p := testetcd.NewProcess(t)
	m, _ := follow(t, testdb.At(t, p.URL))
	p.Kill()
	testkit.Eventually(t, 5*time.Second, "mirror notices", func() bool { return !m.Connected() })
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if err := m.WaitRevision(ctx, 1); err == nil {
		t.Error("revision 1 is said to be reached")
	}
}

func TestAFeedBeginsAnewWithAStoreThatWentBack(t *testing.T) {
	t.Parallel() // it mostly waits
	p := testetcd.NewProcess(t)
	db := testdb.At(t, p.URL)
	before := testdb.Put(t, db, watched+"a", "1")
	backup := p.Backup()
	f := newFeed(t, db)
	var lost int64
	for range 10 {
		lost = testdb.Put(t, db, watched+"a", "lost")
	}
	told(t, f, before, lost)

	p.Restore(backup)
	rev := testdb.Put(t, db, watched+"a", "2")
	testkit.Eventually(t, soon, "the feed is back", func() bool {
		reached, begun := f.Revision()
		return begun && reached >= rev && reached < lost
	})
	if _, _, _, err := f.After(before - 1); !fault.Is(err, fault.Conflict) {
		t.Errorf("after a revision from before: %v", err)
	}
	last := testdb.Put(t, db, watched+"a", "3")
	if got := told(t, f, rev, last); got != "a:2>3" {
		t.Errorf("told %q", got)
	}
}

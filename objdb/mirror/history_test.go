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
	"github.com/contiv/netplugin/test/etcdtest"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// soon is the time limit for a mirror to notice that the store was replaced or restored.
const soon = 30 * time.Second

// present returns the keys and values below /m/ in the store.
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
	for _, token := range []string{etcdtest.Token, "another"} { // the same cluster id, and another
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
	// The same revision as the lost write, another value.
	rev := testdb.Put(t, db, "/m/changed", "new")
	waitRevision(t, m, rev)
	want := map[string]string{"/m/same": "same", "/m/changed": "new", "/m/deleted": "old"}
	if !cmp.Equal(r.contents(), want) {
		t.Error(cmp.Diff(want, r.contents()))
	}
}

// absence is a mirror that is disconnected while its store is restored from a backup and then advances beyond the
// mirror's revision: only what the mirror itself has seen shows the difference.
type absence struct {
	backup string
	db     *objdb.DB
	*testetcd.Process
}

// passes makes writes that the mirror does not follow, and returns the last revision.
func (a absence) passes(t *testing.T, revisions int) (rev int64) {
	t.Helper()
	for range revisions {
		rev = testdb.Put(t, a.db, "/elsewhere", "x")
	}
	return rev
}

// begin makes the backup, of two keys.
func begin(t *testing.T) absence {
	t.Helper()
	p := testetcd.NewProcess(t)
	a := absence{Process: p, db: testdb.At(t, p.URL)}
	testdb.Put(t, a.db, "/m/a", "old")
	testdb.Compact(t, a.db, testdb.Put(t, a.db, "/m/last", "old"))
	a.passes(t, 1)
	a.backup = p.Backup()
	return a
}

// lost makes a write that the backup does not have.
func (a absence) lost(t *testing.T) { testdb.Put(t, a.db, "/m/last", "lost") }

// written makes writes that the mirror has to receive.
func (a absence) written(t *testing.T) {
	for i := range 20 {
		testdb.Put(t, a.db, fmt.Sprint("/m/new", i), "new")
	}
}

// forgotten makes writes and compacts them.
func (a absence) forgotten(t *testing.T) {
	a.written(t)
	testdb.Compact(t, a.db, a.passes(t, 1))
}

func nothing(*testing.T) {}

// during follows the store, runs before ahead of the absence and meanwhile in it, and then checks the content of
// the mirror.
func (a absence) during(t *testing.T, before, meanwhile func(*testing.T)) {
	t.Helper()
	way := testetcd.NewProxy(t, a.URL)
	m, r := follow(t, testdb.Open(t, objdb.Config{Endpoints: []string{way.URL}, RequestTimeout: time.Second}))
	before(t)
	waitRevision(t, m, a.passes(t, 50))
	way.Cut()
	testkit.Eventually(t, time.Minute, "mirror is cut off", func() bool { return !m.Connected() })
	a.Restore(a.backup)
	meanwhile(t)
	rev := a.passes(t, 100)
	way.Mend()
	waitRevision(t, m, rev)
	if want := present(t, a.db); !cmp.Equal(r.contents(), want) {
		t.Error(cmp.Diff(want, r.contents()))
	}
}

func TestAStoreThatWentBackAndWentOnIsRecognized(t *testing.T) {
	for what, test := range map[string]func(*testing.T, absence){
		"by an event":              func(t *testing.T, a absence) { a.during(t, a.lost, a.written) },
		"by a listing of old":      func(t *testing.T, a absence) { a.lost(t); a.during(t, nothing, a.forgotten) },
		"although nothing is lost": func(t *testing.T, a absence) { a.during(t, nothing, a.written) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel() // it mostly waits
			test(t, begin(t))
		})
	}
}

func TestNoRevisionIsReachedWhileNobodyKnowsWhichStoreThereIs(t *testing.T) {
	t.Parallel() // it mostly waits
	p := testetcd.NewProcess(t)
	m, _ := follow(t, testdb.At(t, p.URL))
	p.Kill()
	testkit.Eventually(t, time.Minute, "mirror notices", func() bool { return !m.Connected() })
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

// A term that begins in such a store has listed it at a revision, and clients that got this state continue from
// there.
func TestALaterFeedReachesBackToWhenTheStoreWasRecognized(t *testing.T) {
	t.Parallel() // it mostly waits
	p := testetcd.NewProcess(t)
	db := testdb.At(t, p.URL)
	backup := p.Backup()
	testdb.Put(t, db, watched+"a", "lost")
	p.Restore(backup)
	testdb.Put(t, db, watched+"a", "1")
	_, listed, err := db.List(context.Background(), watched)
	if err != nil || db.Standing().History == 0 {
		t.Fatalf("history %d, %v", db.Standing().History, err)
	}
	first := testdb.Put(t, db, watched+"a", "2")
	testdb.Put(t, db, "/elsewhere", "x")
	f := newFeed(t, db)
	if got := told(t, f, listed, first); got != "a:1>2" {
		t.Errorf("told %q", got)
	}
}

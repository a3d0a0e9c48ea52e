package ledger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// standing is a ledger's configuration with an index, to see that both are handed over.
var standing = Config{Owned: []string{state, model}, Indexes: []Index{{
	Prefix: state,
	Terms:  func(_ string, value []byte) []string { return []string{"word/" + string(value)} },
}}}

func standby(t testing.TB, db *objdb.DB) *Standby {
	t.Helper()
	s := Follow(context.Background(), db, standing)
	t.Cleanup(s.Stop)
	m := s.mirror
	testkit.Eventually(t, time.Minute, "the standby has read the store", m.Synced)
	return s
}

func openFrom(t testing.TB, term *objdb.Term, s *Standby) *Ledger {
	t.Helper()
	cfg := standing
	cfg.Standby = s
	l, err := Open(context.Background(), term, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// contents returns everything a ledger has: values with their revisions, and the index.
func contents(t testing.TB, l *Ledger) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := l.View(func(r Reader) error {
		for _, p := range standing.Owned {
			r.Range(p, func(key string, value []byte) bool {
				all[key] = fmt.Sprintf("%s at %d", value, r.Revision(key))
				return true
			})
		}
		r.Search("", "", func(term, key string) bool {
			all["index "+term+" "+key] = ""
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sameAsListed compares a ledger with one that begins with a listing.
func sameAsListed(t testing.TB, l *Ledger) {
	t.Helper()
	listed := &committer{shared: &shared{term: l.term, db: l.db, owned: l.owned}, indexes: l.state.Load().indexes}
	if err := listed.load(context.Background()); err != nil {
		t.Fatal(err)
	}
	if want, got := contents(t, &Ledger{listed.shared}), contents(t, l); !cmp.Equal(want, got) {
		t.Error(cmp.Diff(want, got))
	}
}

// The watch of a standby does not report writes to other keys: a ledger that has listed the store knows that it
// has reached their revision, the standby does not.
func TestALedgerBeginsWithWhatItsStandbyHas(t *testing.T) {
	t.Parallel() // it mostly waits
	url := testetcd.New(t)
	old, db := testdb.At(t, url), testdb.At(t, url)
	testdb.Put(t, db, state+"before", "old")
	first := campaign(t, old, "first", time.Minute)
	l := openLedger(t, first)
	s := standby(t, db)
	s.handOver = time.Minute // it receives all changes, however late

	random := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		key := fmt.Sprint([]string{state, model, "/contiv.io/oper/"}[random.IntN(3)], random.IntN(40))
		switch random.IntN(4) {
		case 0:
			testdb.Delete(t, db, key)
		case 1:
			testdb.Put(t, db, key, fmt.Sprint(i))
		default:
			if strings.HasPrefix(key, "/contiv.io/oper/") {
				continue
			}
			mustUpdate(t, l, func(tx *Tx) error { tx.Put(key, []byte(fmt.Sprint(i))); return nil })
		}
		if i%100 == 50 {
			testdb.Compact(t, db, testdb.Put(t, db, model+"compacted", fmt.Sprint(i)))
		}
	}
	resign(t, first)
	term := campaign(t, db, "second", time.Minute)
	defer resign(t, term)
	beyond := testdb.Put(t, db, "/elsewhere", "x")

	next := openFrom(t, term, s)
	if began := listedAt(t, next); began >= beyond || began < term.Won() {
		t.Errorf("begins at revision %d, the term at %d: a listing would have seen %d", began, term.Won(), beyond)
	}
	sameAsListed(t, next)

	mustUpdate(t, next, func(tx *Tx) error { tx.Put(state+"after", []byte("new")); return nil })
	testdb.Delete(t, db, state+"before")
	testdb.Put(t, db, model+"foreign", "new")
	testkit.Eventually(t, time.Minute, "what others write arrives", func() bool {
		all := contents(t, next)
		return all[state+"before"] == "" && all[model+"foreign"] != "" && all[state+"after"] != ""
	})
	sameAsListed(t, next)
}

func TestAStandbyFollowsAStoreThatWentBack(t *testing.T) {
	t.Parallel() // it mostly waits
	p := testetcd.NewProcess(t)
	db := testdb.At(t, p.URL)
	testdb.Put(t, db, state+"same", "same")
	testdb.Put(t, db, state+"changed", "old")
	testdb.Put(t, db, model+"deleted", "old")
	backup := p.Backup()
	s := standby(t, db)
	s.handOver = time.Minute // it receives all changes, however late
	testdb.Put(t, db, state+"changed", "lost")
	testdb.Put(t, db, model+"added", "lost")
	if err := s.mirror.WaitChange(t.Context(), testdb.Delete(t, db, model+"deleted")); err != nil {
		t.Fatal(err)
	}

	p.Restore(backup)
	testdb.Put(t, db, state+"changed", "new")
	term := campaign(t, db, "me", time.Minute)
	defer resign(t, term)
	beyond := testdb.Put(t, db, "/elsewhere", "x")
	next := openFrom(t, term, s)
	if began := listedAt(t, next); began >= beyond {
		t.Errorf("begins at revision %d, with a listing", began)
	}
	sameAsListed(t, next)
}

// A standby that receives no changes must not be used.
func TestALedgerListsWhatItsStandbyMisses(t *testing.T) {
	t.Parallel() // it mostly waits
	url := testetcd.New(t)
	way, db := testetcd.NewProxy(t, url), testdb.At(t, url)
	testdb.Put(t, db, state+"a", "old")
	s := standby(t, testdb.Open(t, objdb.Config{Endpoints: []string{way.URL}, RequestTimeout: time.Second}))
	way.Silence()
	testdb.Put(t, db, state+"a", "new")
	testdb.Put(t, db, model+"b", "new")
	term := campaign(t, db, "me", time.Minute)
	defer resign(t, term)
	sameAsListed(t, openFrom(t, term, s))
}

// Changes in the journal of the predecessor are present from the beginning, also if the standby receives nothing
// more once the term has begun.
func TestALedgerBeginsAfterAJournalThatItFinishes(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("deaf %v", deaf), func(t *testing.T) {
			t.Parallel() // it mostly waits
			url := testetcd.New(t)
			way, db := testetcd.NewProxy(t, url), testdb.At(t, url)
			testdb.Put(t, db, state+"old", "x")
			s := standby(t, testdb.Open(t, objdb.Config{Endpoints: []string{way.URL}, RequestTimeout: time.Second}))
			term := campaign(t, db, "me", time.Minute)
			defer resign(t, term)
			leaveJournal(t, db, journalOf(term))
			if err := s.mirror.WaitChange(t.Context(), term.Won()); err != nil {
				t.Fatal(err)
			}
			if deaf {
				way.Silence()
			}
			next := openFrom(t, term, s)
			all := contents(t, next)
			if all[state+"old"] != "" || all[state+"new/599"] == "" {
				t.Errorf("the plan of the journal is not in the first state of the term: %d entries", len(all))
			}
			sameAsListed(t, next)
		})
	}
}

// leaveJournal stores the journal of a plan that was committed.
func leaveJournal(t *testing.T, db *objdb.DB, j journal) {
	t.Helper()
	changed := []change{{key: state + "old", delete: true}}
	for i := range 600 {
		changed = append(changed, change{key: fmt.Sprintf("%snew/%03d", state, i), value: []byte("y")})
	}
	parts, err := j.encode("1-1", changed)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range parts {
		testdb.Put(t, db, part.Key, string(part.Value))
	}
	testdb.Put(t, db, j.committed(), fmt.Sprintf(`{"attempt":"1-1","parts":%d}`, len(parts)))
}

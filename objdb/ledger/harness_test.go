package ledger

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/notify"
)

const lock = "netmaster/leader"

func TestMain(m *testing.M) {
	os.Exit(testetcd.Main(m, map[string]func([]string) error{"writer": writeMany}))
}

// campaignLimit is the time limit of a candidate for acquiring the lock.
const campaignLimit = 3 * time.Minute

func campaign(t testing.TB, db *objdb.DB, who string, ttl time.Duration) *objdb.Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), campaignLimit)
	defer cancel()
	term, err := db.Campaign(ctx, objdb.CampaignConfig{Lock: lock, Value: who, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return term
}

// resign ends a term and revokes its lease. It retries, for tests with short request timeouts; an expired lease
// counts as revoked.
func resign(t testing.TB, term *objdb.Term) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := testkit.Poll(ctx, func() error { return term.Resign(ctx) }); err != nil {
		t.Error(err)
	}
}

const (
	state = "/contiv.io/state/"
	model = "/contiv.io/obj/modeldb/"
)

// commits counts group commits, and signals each.
type commits struct {
	batches, plans, conflicts atomic.Int64
	news                      notify.Signal
}

func (c *commits) Committed(plans, _ int, _ time.Duration, err error) {
	c.batches.Add(1)
	c.plans.Add(int64(plans))
	if errors.Is(err, errConflict) {
		c.conflicts.Add(1)
	}
	c.news.Send()
}

// lead wins the lock and resigns at the end of the test.
func lead(t testing.TB, db *objdb.DB) *objdb.Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), campaignLimit)
	defer cancel()
	term, err := db.Campaign(ctx, objdb.CampaignConfig{Lock: "test/" + t.Name(), Value: "me", TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := term.Resign(ctx); err != nil && !fault.Is(err, fault.Unavailable) {
			t.Error(err)
		}
	})
	return term
}

func openLedger(t testing.TB, term *objdb.Term) *Ledger {
	t.Helper()
	return openAs(t, term, Config{Owned: []string{state, model}})
}

// openAs opens the ledger of a term. It retries if the store does not answer in time: some tests have a request
// timeout of a second.
func openAs(t testing.TB, term *objdb.Term, cfg Config) (l *Ledger) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := testkit.Poll(ctx, func() (err error) {
		l, err = Open(context.Background(), term, cfg)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// newLedger opens a ledger on a store of its own.
func newLedger(t testing.TB) (*Ledger, *objdb.DB, *commits) {
	t.Helper()
	seen := &commits{news: notify.New()}
	db := testdb.Open(t, objdb.Config{Endpoints: []string{testetcd.New(t)}})
	l, err := Open(context.Background(), lead(t, db), Config{Owned: []string{state, model}, Observer: seen})
	if err != nil {
		t.Fatal(err)
	}
	return l, db, seen
}

// inCommitter runs a function in the committer of a ledger.
func inCommitter(l *Ledger, f func(c *committer) error) error {
	return (&preparer{shared: l.shared}).inCommitter(f)
}

// listedAt returns the revision of a ledger's last listing, or of the state of its standby.
func listedAt(t testing.TB, l *Ledger) (rev int64) {
	t.Helper()
	if err := inCommitter(l, func(c *committer) error { rev = c.loaded; return nil }); err != nil {
		t.Fatal(err)
	}
	return rev
}

// maxOps returns the number of operations that a ledger puts into one transaction.
func maxOps(t testing.TB, l *Ledger) (n int) {
	t.Helper()
	if err := inCommitter(l, func(c *committer) error { n = c.maxOps; return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// increment returns a plan that increments a key.
func increment(key string) func(*Tx) error {
	return func(tx *Tx) error {
		n := 0
		if value, ok := tx.Get(key); ok {
			var err error
			if n, err = strconv.Atoi(string(value)); err != nil {
				return err
			}
		}
		tx.Put(key, []byte(strconv.Itoa(n+1)))
		return nil
	}
}

func mustUpdate(t testing.TB, l *Ledger, plan func(*Tx) error) int64 {
	t.Helper()
	rev, err := l.Update(context.Background(), plan)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

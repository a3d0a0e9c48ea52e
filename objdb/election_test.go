package objdb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

const (
	lock  = "netmaster/leader"
	state = "/contiv.io/state/"
)

// campaignLimit is the time limit of a candidate for acquiring the lock.
const campaignLimit = 3 * time.Minute

// outcome is the result of a candidacy.
type outcome struct {
	term *Term
	err  error
}

// stands campaigns in a goroutine; the test gets the outcome by won.
func stands(t testing.TB, db *DB, who string, ttl time.Duration) <-chan outcome {
	elected := make(chan outcome, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), campaignLimit)
		defer cancel()
		term, err := db.Campaign(ctx, CampaignConfig{Lock: lock, Value: who, TTL: ttl})
		elected <- outcome{term, err}
	}()
	return elected
}

// won waits until a candidate holds the lock.
func won(t testing.TB, elected <-chan outcome) *Term {
	t.Helper()
	o := <-elected
	if o.err != nil {
		t.Fatal(o.err)
	}
	return o.term
}

func campaign(t testing.TB, db *DB, who string, ttl time.Duration) *Term {
	t.Helper()
	return won(t, stands(t, db, who, ttl))
}

// resign ends a term and revokes its lease. It retries, for tests with short request timeouts; an expired lease
// counts as revoked.
func resign(t testing.TB, term *Term) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := testkit.Poll(ctx, func() error { return term.Resign(ctx) }); err != nil {
		t.Error(err)
	}
}

func TestASuccessorLeadsAtOnceAfterAResignation(t *testing.T) {
	url := testetcd.New(t)
	a, b := open(t, Config{Endpoints: []string{url}}), open(t, Config{Endpoints: []string{url}})
	ctx := context.Background()

	if _, err := a.Holder(ctx, lock); !fault.Is(err, fault.NotFound) {
		t.Errorf("holder of a free lock: %v", err)
	}
	first := campaign(t, a, "a:1", time.Minute)
	elected := stands(t, b, "b:1", time.Minute)
	testkit.Eventually(t, time.Minute, "second candidate queues", func() bool {
		kvs, _, err := a.List(ctx, lockRoot+lock+"/")
		return err == nil && len(kvs) == 2
	})
	if holder, err := b.Holder(ctx, lock); err != nil || holder != "a:1" {
		t.Errorf("holder is %q, %v", holder, err)
	}

	resign(t, first)
	began := time.Now()
	second := won(t, elected)
	if took := time.Since(began); took > 20*time.Second { // the lease is longer
		t.Errorf("nobody led for %s", took)
	}
	if first.Context().Err() == nil || !fault.Is(context.Cause(first.Context()), fault.NotLeader) {
		t.Errorf("first term: %v", context.Cause(first.Context()))
	}
	if second.Epoch() <= first.Epoch() {
		t.Errorf("epoch went from %d to %d", first.Epoch(), second.Epoch())
	}
	if holder, err := a.Holder(ctx, lock); err != nil || holder != "b:1" {
		t.Errorf("holder is %q, %v", holder, err)
	}
	resign(t, second)
	if kvs, _, err := a.List(ctx, lockRoot); err != nil || len(kvs) != 0 {
		t.Errorf("left behind: %v, %v", kvs, err)
	}
}

func TestThereIsNeverMoreThanOneLeader(t *testing.T) {
	url := testetcd.New(t)
	var leading, terms atomic.Int32
	var all sync.WaitGroup
	for i := range 5 {
		db := open(t, Config{Endpoints: []string{url}})
		all.Go(func() {
			for range 4 {
				o := <-stands(t, db, fmt.Sprint(i), time.Minute)
				if o.err != nil {
					t.Error(o.err)
					return
				}
				if n := leading.Add(1); n != 1 {
					t.Errorf("%d leaders", n)
				}
				terms.Add(1)
				leading.Add(-1)
				resign(t, o.term)
			}
		})
	}
	all.Wait()
	if terms.Load() != 20 {
		t.Errorf("%d terms", terms.Load())
	}
}

func TestACandidateWhoGivesUpLeavesNothingBehind(t *testing.T) {
	db := newDB(t)
	term := campaign(t, db, "a:1", time.Minute)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := db.Campaign(ctx, CampaignConfig{Lock: lock, Value: "b:1", TTL: 10 * time.Second})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if kvs, _, err := db.List(context.Background(), lockRoot+lock+"/"); err != nil || len(kvs) != 1 {
		t.Errorf("candidates: %v, %v", kvs, err)
	}
	resign(t, term)
}

func TestBadCampaignsAreRefused(t *testing.T) {
	db := open(t, Config{Endpoints: []string{testkit.FreeURL()}})
	for _, cfg := range []CampaignConfig{{}, {Lock: "a", Value: "b"}, {Lock: "a", TTL: time.Minute}, {Value: "b", TTL: time.Minute}} {
		if _, err := db.Campaign(context.Background(), cfg); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

func TestACandidateWhoseLeaseLapsedStandsAgain(t *testing.T) {
	t.Parallel() // it mostly waits
	const ttl = 2 * time.Second
	url := testetcd.New(t)
	way := testetcd.NewProxy(t, url)
	near := open(t, Config{Endpoints: []string{url}})
	far := open(t, Config{Endpoints: []string{way.URL}, RequestTimeout: time.Second})
	term := campaign(t, near, "near", time.Minute)

	elected := stands(t, far, "far", ttl)
	candidates := func(n int) func() bool {
		return func() bool {
			kvs, _, err := near.List(context.Background(), lockRoot+lock+"/")
			return err == nil && len(kvs) == n
		}
	}
	testkit.Eventually(t, time.Minute, "far queues", candidates(2))
	way.Silence()
	testkit.Eventually(t, time.Minute, "far's lease lapses", candidates(1))
	way.Mend()
	testkit.Eventually(t, time.Minute, "far queues again", candidates(2))
	if term.Context().Err() != nil {
		t.Fatal("near lost the lock")
	}
	resign(t, term)
	resign(t, won(t, elected))
}

func TestACampaignWaitsForTheStore(t *testing.T) {
	p := testetcd.NewProcess(t)
	p.Kill()
	db := open(t, Config{Endpoints: []string{p.URL}, RequestTimeout: 2 * time.Second})
	elected := stands(t, db, "patient", 3*time.Second)
	p.Start()
	resign(t, won(t, elected))
}

func TestATermOutlivesTheLossOfOneOfSeveralEndpoints(t *testing.T) { termOutlivesLoss(t, 1) }

// Requests, and lease renewals among them, use the endpoints in turn: all of a few attempts may use endpoints that
// do not answer.
func TestATermOutlivesTheLossOfMostOfSeveralEndpoints(t *testing.T) { termOutlivesLoss(t, 6) }

// termOutlivesLoss silences all endpoints but one.
func termOutlivesLoss(t *testing.T, silent int) {
	t.Parallel() // it mostly waits
	const ttl = 15 * time.Second
	if ownLimit(ttl) >= pingAfter+pingTimeout {
		t.Fatal("gRPC itself misses an endpoint sooner than the term ends")
	}
	url := testetcd.New(t)
	endpoints := []string{url}
	var ways []*testetcd.Proxy
	for range silent {
		way := testetcd.NewProxy(t, url)
		ways, endpoints = append(ways, way), append(endpoints, way.URL)
	}
	db := open(t, Config{Endpoints: endpoints})
	term := campaign(t, db, "a", ttl)
	for _, way := range ways {
		way.Silence()
	}
	select {
	case <-term.Context().Done():
		t.Errorf("ended: %v", context.Cause(term.Context()))
	case <-time.After(ownLimit(ttl) + 5*time.Second): // an answer came in between
	}
	resign(t, term)
}

func TestACandidateWhoseKeyWasRemovedStandsAgain(t *testing.T) {
	db := newDB(t)
	ctx := context.Background()
	first := campaign(t, db, "a", time.Minute)
	elected := stands(t, db, "b", time.Minute)
	testkit.Eventually(t, time.Minute, "b queues", func() bool {
		kvs, _, err := db.List(ctx, LockKey(lock)+"/")
		for _, kv := range kvs {
			if string(kv.Value) == "b" {
				del(t, db, kv.Key)
				return true
			}
		}
		if err != nil {
			t.Log(err)
		}
		return false
	})
	resign(t, first)
	second := won(t, elected)
	if _, ok, err := db.Txn(ctx, Txn{If: []Guard{second.Fence()}}); err != nil || !ok {
		t.Errorf("leads without its candidate key: %v", err)
	}
	resign(t, second)
}

// The backup contains the fence, too: only the revision shows the difference.
func TestATermEndsWhenTheStoreGoesBack(t *testing.T) {
	t.Parallel() // it mostly waits
	p := testetcd.NewProcess(t)
	db := open(t, Config{Endpoints: []string{p.URL}})
	term := campaign(t, db, "a", 60*time.Second)
	backup := p.Backup()
	put(t, db, "/x/lost", "1")
	if term.Context().Err() != nil {
		t.Fatalf("the term did not outlive a restart of the store: %v", context.Cause(term.Context()))
	}
	p.Restore(backup)
	select {
	case <-term.Context().Done():
	case <-time.After(30 * time.Second): // the lease is longer
		t.Fatal("the term goes on")
	}
	if cause := context.Cause(term.Context()); !fault.Is(cause, fault.NotLeader) || !strings.Contains(cause.Error(), "went back") {
		t.Errorf("ended with %v", cause)
	}
	resign(t, term)
	resign(t, campaign(t, db, "a", 60*time.Second))
}

// Days of refusals, as with a wrong password, would otherwise fill the log with a line for each attempt.
func TestACampaignThatIsRefusedAgainAndAgainSaysSoOnce(t *testing.T) {
	t.Parallel() // it mostly waits
	p := testetcd.NewProcess(t)
	enableUsers(t, open(t, Config{Endpoints: []string{p.URL}}))
	log, told := testkit.Recorded()
	log.Logger.SetLevel(logrus.DebugLevel)
	db := open(t, Config{Endpoints: []string{p.URL}, Log: log})
	ctx, stop := context.WithCancel(t.Context())
	var standing sync.WaitGroup
	standing.Go(func() { _, _ = db.Campaign(ctx, CampaignConfig{Lock: lock, Value: "a", TTL: 10 * time.Second}) })
	lines := func() int { return strings.Count(told.String(), "campaign interrupted") }
	testkit.Eventually(t, time.Minute, "several attempts", func() bool { return lines() > 3 })
	stop()
	standing.Wait()
	for line := range strings.Lines(told.String()) {
		if strings.Contains(line, "campaign interrupted") && strings.Contains(line, "level=warn") {
			if !strings.Contains(line, "user name is empty") || !strings.Contains(line, p.URL) {
				t.Errorf("names no cause: %s", line)
			}
		}
	}
	if warned := strings.Count(told.String(), `level=warning msg="campaign interrupted`); warned != 1 {
		t.Errorf("warned %d times in %d attempts", warned, lines())
	}
}

// etcdctl make-mirror copies keys without their leases: the candidates of the other store would queue here for ever.
func TestACandidateThatWasCopiedFromAnotherStoreHoldsNobodyUp(t *testing.T) {
	log, told := testkit.Recorded()
	db := open(t, Config{Endpoints: []string{testetcd.New(t)}, Log: log})
	copied := LockKey(lock) + "/7643a23001b6675b"
	put(t, db, LockKey(lock), "another")
	put(t, db, copied, "another")
	term := won(t, stands(t, db, "a", 10*time.Second))
	if _, err := db.Get(t.Context(), copied); !fault.Is(err, fault.NotFound) {
		t.Errorf("the copy: %v", err)
	}
	if text := told.String(); strings.Count(text, "has no lease") != 1 || !strings.Contains(text, copied) {
		t.Errorf("the log: %s", text)
	}
	resign(t, term)
}

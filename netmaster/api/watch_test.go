package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// watching is a client's view of a watch.
type watching struct {
	testing.TB
	lines  chan string // closed at the end
	ended  error       // of the stream, once lines is closed
	cancel context.CancelFunc
}

// watchAt begins a watch that must succeed.
func (b *bench) watchAt(query string) *watching { b.Helper(); return b.watchAs(query, "") }

// watchAs is watchAt with a token.
func (b *bench) watchAs(query, token string) *watching {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", b.url+"/api/v1/"+query, nil)
	if err != nil {
		b.Fatal(err)
	}
	if proven, is := strings.CutPrefix(token, "proven:"); is {
		req.Header.Set(provenHeader, proven)
	} else if token != "" {
		req.Header.Set(auth.TokenHeader, token)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != rest.StreamType {
		b.Fatalf("%s: %s %v", query, resp.Status, resp.Header)
	}
	w := &watching{TB: b, lines: make(chan string, 10000), cancel: cancel}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(w.lines)
		defer resp.Body.Close()
		for in := bufio.NewReader(resp.Body); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				w.ended = err
				return
			}
			w.lines <- line
		}
	})
	b.Cleanup(func() { cancel(); reading.Wait() })
	return w
}

// told is one event.
type told struct {
	Type     string
	Revision int64
	Object   struct{ Key, TenantName string }
	text     string
}

// next returns the next event; ok is false at the end of the stream.
func (w *watching) next() (e told, ok bool) {
	w.Helper()
	select {
	case line, open := <-w.lines:
		if !open {
			return e, false
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			w.Fatalf("%q: %v", line, err)
		}
		e.text = line
		return e, true
	case <-time.After(20 * time.Second): // less than the time between two bookmarks
		w.Fatal("nothing is told")
		return e, false
	}
}

// expect requires the next events, given as "TYPE key".
func (w *watching) expect(want ...string) (last told) {
	w.Helper()
	for _, text := range want {
		var ok bool
		last, ok = w.next()
		if got := strings.TrimSuffix(last.Type+" "+last.Object.Key, " "); !ok || got != text {
			w.Fatalf("told %q (%s), want %q", got, last.text, text)
		}
	}
	return last
}

func profile(name string, dscp int) string {
	return fmt.Sprintf(`{"tenantName":"blue","profileName":"%s","DSCP":%d}`, name, dscp)
}

func TestAWatchTellsWhatIsThereThenEveryChange(t *testing.T) {
	b := ready(t)
	b.ok("POST", "netprofiles/blue:a", profile("a", 1))
	b.ok("POST", "netprofiles/blue:b", profile("b", 1))
	w := b.watchAt("netprofiles/?watch=true")
	w.expect("ADDED blue:a", "ADDED blue:b")
	present := w.expect("BOOKMARK")

	b.ok("POST", "networks/blue:web", web) // is not in the collection
	b.ok("POST", "netprofiles/blue:a", profile("a", 2))
	changed := w.expect("MODIFIED blue:a")
	if want := fmt.Sprintf("%q", fmt.Sprint(changed.Revision)); b.tagged("GET", "netprofiles/blue:a", "") != want {
		t.Errorf("told revision %s", want)
	}
	if !strings.Contains(changed.text, `"DSCP":2`) || changed.Revision <= present.Revision {
		t.Errorf("told %s", changed.text)
	}
	b.ok("DELETE", "netprofiles/blue:a", "")
	if gone := w.expect("DELETED blue:a"); !strings.Contains(gone.text, `"DSCP":2`) {
		t.Errorf("what was deleted is told as %s", gone.text)
	}

	again := b.watchAt(fmt.Sprintf("netprofiles?watch=true&revision=%d", present.Revision))
	again.expect("MODIFIED blue:a", "DELETED blue:a")
	b.ok("POST", "netprofiles/blue:c", profile("c", 1))
	w.expect("ADDED blue:c")
	again.expect("ADDED blue:c")
}

func TestAWatchOfATenantTellsOfNoOther(t *testing.T) {
	b := ready(t)
	b.ok("POST", "tenants/red", `{"tenantName":"red"}`)
	w := b.watchAt("netprofiles/?watch=true&tenant=red")
	tenants := b.watchAt("tenants/?watch=true&tenant=red")
	w.expect("BOOKMARK")
	tenants.expect("ADDED red", "BOOKMARK")
	b.ok("POST", "netprofiles/blue:a", profile("a", 1))
	b.ok("POST", "netprofiles/red:a", strings.Replace(profile("a", 1), "blue", "red", 1))
	b.ok("DELETE", "netprofiles/blue:a", "")
	b.ok("DELETE", "netprofiles/red:a", "")
	w.expect("ADDED red:a", "DELETED red:a")
	b.ok("DELETE", "tenants/red", "")
	tenants.expect("DELETED red")
}

func TestEventsCarryTheLinksOfAnObject(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:web", web)
	w := b.watchAt("tenants/?watch=true&tenant=blue")
	if e := w.expect("ADDED blue"); !strings.Contains(e.text, `"Networks":{"blue:web"`) {
		t.Errorf("told %s", e.text)
	}
}

func TestAQuietWatchIsToldThatItIsAlive(t *testing.T) {
	b := ready(t, func(c *Config) { c.Bookmarks = 50 * time.Millisecond })
	w := b.watchAt("rules/?watch=true")
	first := w.expect("BOOKMARK")
	if next := w.expect("BOOKMARK", "BOOKMARK"); next.Revision < first.Revision {
		t.Errorf("revision %d after %d", next.Revision, first.Revision)
	}
}

// Leaders may change more often than a quiet watch sends events. The revision from which a client continues must
// advance nevertheless, or that revision will be compacted.
func TestAWatchIsToldHowFarTheOthersHaveCome(t *testing.T) {
	b := ready(t)
	w := b.watchAt("rules/?watch=true")
	begin := w.expect("BOOKMARK").Revision
	_, err := b.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		for i := range bookmarkAfter {
			tx.Put(mastercfg.ModelKey("netprofile", fmt.Sprint("blue:p", i)), []byte("{}"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if e := w.expect("BOOKMARK"); e.Revision <= begin {
		t.Errorf("revision %d, begun at %d", e.Revision, begin)
	}
}

// A client that is interrupted repeatedly, and continues after the last revision of which it has all events, has
// seen everything once.
func TestNothingIsLostOrToldTwiceBetweenWatches(t *testing.T) {
	b := ready(t)
	const writers, each = 4, 60
	begin := b.watchAt("netprofiles/?watch=true").expect("BOOKMARK").Revision
	var writing sync.WaitGroup
	for i := range writers {
		writing.Go(func() {
			for j := range each {
				name := fmt.Sprintf("p%d-%d", i, j)
				for _, request := range [][3]string{
					{"POST", profile(name, 1)}, {"POST", profile(name, 2)}, {"DELETE", ""},
				} {
					if code, answer, _ := b.do(request[0], "netprofiles/blue:"+name, request[1]); code != 200 {
						t.Errorf("%s: %d %s", name, code, answer)
					}
				}
			}
		})
	}
	seen := map[string][]string{}
	once := map[string]bool{} // events seen: object and revision
	const all = 3 * writers * each
	for last := begin; len(once) < all; {
		w := b.watchAt(fmt.Sprintf("netprofiles/?watch=true&revision=%d", last))
		again := last + 1 // several objects may have changed at it, and not all have been read
		for n := 0; n < 17 && len(once) < all; n++ {
			e, ok := w.next()
			if !ok {
				t.Fatalf("the stream ended: %v", w.ended)
			}
			last = e.Revision - 1
			change := fmt.Sprint(e.Object.Key, e.Revision)
			switch {
			case !once[change]:
				once[change] = true
				seen[e.Object.Key] = append(seen[e.Object.Key], e.Type)
			case e.Revision != again:
				t.Errorf("told twice: %s", e.text)
			}
		}
		w.cancel()
	}
	writing.Wait()
	for key, events := range seen {
		if !slices.Equal(events, []string{"ADDED", "MODIFIED", "DELETED"}) {
			t.Errorf("%s: %v", key, events)
		}
	}
	if len(seen) != writers*each {
		t.Errorf("%d objects were seen", len(seen))
	}
}

func TestRevisionsThatCannotBeContinuedAreGone(t *testing.T) {
	b := ready(t)
	b.ok("POST", "netprofiles/blue:a", profile("a", 1))
	b.ok("POST", "netprofiles/blue:a", profile("a", 2))
	storetest.Compact(t)
	successor := b.successor()
	for _, query := range []string{"revision=1", "revision=99999999"} {
		code, answer, _ := successor.do("GET", "/api/v1/netprofiles/?watch=true&"+query, "", "Accept", fault.ProblemType)
		if code != http.StatusGone || !strings.Contains(answer, `"reason":"conflict"`) {
			t.Errorf("%s: %d %s", query, code, answer)
		}
	}
	for query, want := range map[string]int{"revision=x": 400, "revision=-1": 400} {
		if code, answer, _ := successor.do("GET", "/api/v1/netprofiles/?watch=true&"+query, "", "Accept", fault.ProblemType); code != want {
			t.Errorf("%s: %d %s", query, code, answer)
		}
	}
	if code, _, _ := successor.do("HEAD", "/api/v1/netprofiles/?watch=true", ""); code != http.StatusOK {
		t.Errorf("HEAD: %d", code)
	}
}

// successor returns the API of another leader on the same state.
func (b *bench) successor() *bench {
	b.Helper()
	a := New(b.ledger, b.db, mirror.NewFeed(b.db, mastercfg.ModelRoot), b.api.config)
	run(b, a)
	server := httptest.NewServer(a)
	b.Cleanup(server.Close)
	return &bench{b.TB, b.db, b.ledger, nil, a, server.URL, b.client}
}

func TestAWatchGoesOnWithTheNextLeader(t *testing.T) {
	b := ready(t)
	last := b.watchAt("netprofiles/?watch=true").expect("BOOKMARK").Revision
	b.ok("POST", "netprofiles/blue:a", profile("a", 1))
	w := b.successor().watchAt(fmt.Sprintf("netprofiles/?watch=true&revision=%d", last))
	w.expect("ADDED blue:a")
	b.ok("DELETE", "netprofiles/blue:a", "")
	w.expect("DELETED blue:a")
}

// The last revision of a watch may have changed only keys that the next leader does not read.
func TestAWatchGoesOnAfterARevisionOfSomethingElse(t *testing.T) {
	b := ready(t)
	last, _, err := b.db.Txn(t.Context(), objdb.Txn{Puts: []objdb.KV{{Key: "/contiv.io/lock/of-something-else", Value: []byte("x")}}})
	if err != nil {
		t.Fatal(err)
	}
	w := b.successor().watchAt(fmt.Sprintf("netprofiles/?watch=true&revision=%d", last))
	b.ok("POST", "netprofiles/blue:a", profile("a", 1))
	w.expect("ADDED blue:a")
}

func TestWatchesEndCleanlyWithTheTerm(t *testing.T) {
	b := ready(t)
	a := New(b.ledger, b.db, mirror.NewFeed(b.db, mastercfg.ModelRoot), b.api.config)
	stop := run(b, a)
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	term := &bench{b.TB, b.db, b.ledger, nil, a, server.URL, b.client}
	var all []*watching
	for range 10 {
		w := term.watchAt("rules/?watch=true")
		w.expect("BOOKMARK")
		all = append(all, w)
	}
	stop()
	for _, w := range all {
		if e, ok := w.next(); ok || w.ended != io.EOF {
			t.Errorf("told %s, ended with %v", e.text, w.ended)
		}
	}
	if code, answer, _ := term.do("GET", "/api/v1/rules/?watch=true", ""); code != 200 || answer == "" {
		// The feed still exists; the stream ends at once, and the client looks for the leader.
		t.Errorf("after the end: %d %s", code, answer)
	}
	testkit.Eventually(t, 20*time.Second, "no watch is left", func() bool { return a.watching.Load() == 0 })
}

func TestWatchersThatDoNotReadHoldNobodyUp(t *testing.T) {
	b := ready(t)
	for range 50 { // clients that begin a watch and go to sleep
		resp, err := http.Get(b.url + "/api/v1/netprofiles/?watch=true")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
	}
	w := b.watchAt("netprofiles/?watch=true")
	w.expect("BOOKMARK")
	for i := range 200 {
		began := time.Now()
		b.ok("POST", "netprofiles/blue:a", profile("a", i%60+1))
		w.next()
		if took := time.Since(began); took > time.Minute { // one that waits for a client takes longer
			t.Fatalf("change %d took %s", i+1, took)
		}
	}
}

func TestThereIsALimitOfWatches(t *testing.T) {
	b := ready(t)
	b.api.watching.Store(maxWatches - 1)
	w := b.watchAt("rules/?watch=true")
	w.expect("BOOKMARK")
	if code, answer, _ := b.do("GET", "/api/v1/rules/?watch=true", "", "Accept", fault.ProblemType); code != http.StatusServiceUnavailable {
		t.Errorf("%d %s", code, answer)
	}
	w.cancel()
	testkit.Eventually(t, 20*time.Second, "the place is free again", func() bool { return b.api.watching.Load() == maxWatches-1 })
}

// dormant is a feed that begins on demand, and counts its calls.
type dormant struct {
	Feed
	mu    sync.Mutex
	asked int
	begun bool
	more  chan struct{}
}

// tooOften ends a loop that asks without waiting.
const tooOften = 100

func (d *dormant) After(rev int64) ([]mirror.Change, int64, <-chan struct{}, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	return nil, rev, d.more, nil
}

func (d *dormant) Revision() (int64, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return 0, d.begun || d.asked >= tooOften
}

// wake makes waiting callers call again.
func (d *dormant) wake(begun bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun = begun
	close(d.more)
	d.more = make(chan struct{})
}

// A watch of a feed that has not begun calls once, and again when it is woken; it ends with its client and with
// the term.
func TestAWatchWaitsForAFeedThatHasNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for end, want := range map[string]string{"begin": "", "leave": "watch: context canceled", "term": "not the leader any more"} {
			feed, ended := &dormant{more: make(chan struct{})}, make(chan struct{})
			w := &watch{api: &API{feed: feed, ended: ended}, revision: 5}
			ctx, leave := context.WithCancel(t.Context())
			waited := make(chan error, 1)
			go func() { waited <- w.waitForFeed(ctx) }()
			synctest.Wait()
			feed.wake(false) // as when the store has compacted changes that the feed needs
			synctest.Wait()
			if len(waited) > 0 || feed.asked != 2 {
				t.Errorf("%s: the feed, which has not begun, was asked %d times, want 2; the watch goes on by itself: %t", end, feed.asked, len(waited) > 0)
			}
			switch end {
			case "begin":
				feed.wake(true)
			case "leave":
				leave()
			case "term":
				close(ended)
			}
			if err := <-waited; (err == nil) != (want == "") || err != nil && err.Error() != want {
				t.Errorf("%s: %v, want %q", end, err, want)
			}
			leave()
		}
	})
}

package daemon

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// A leader that the network has cut off answers nothing. Another one leads within its lease; a client would wait for a
// minute.
func TestWhatAReplacedLeaderDoesNotAnswerIsAskedOfTheNext(t *testing.T) {
	for method, want := range map[string]struct {
		code int
		text string
	}{
		"GET":  {http.StatusOK, "the next"},
		"POST": {http.StatusBadGateway, "may have happened"}, // and so is not repeated
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			var lead atomic.Pointer[string]
			next := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("the next")) }))
			t.Cleanup(next.Close)
			done := make(chan struct{})
			silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, _ *http.Request) {
				other := next.Listener.Addr().String()
				lead.Store(&other)
				<-done
			}))
			t.Cleanup(silent.Close)
			t.Cleanup(func() { close(done) })
			first := silent.Listener.Addr().String()
			lead.Store(&first)
			p := newProxy(holder(func() (string, error) { return *lead.Load(), nil }), "127.0.0.1:1", new(certificates), testkit.Quiet())
			w, began := httptest.NewRecorder(), time.Now()
			p.ServeHTTP(w, httptest.NewRequest(method, "/api/v1/tenants/", strings.NewReader("{}")))
			if took := time.Since(began); took > answerLimit/2 || w.Code != want.code || !strings.Contains(w.Body.String(), want.text) {
				t.Errorf("%d %s after %s, want %v", w.Code, w.Body, took, want)
			}
		})
	}
}

// The lock still names a leader that reaches the store, and that this netmaster does not reach.
func TestAFollowerThatDoesNotReachTheLeaderIsNotReady(t *testing.T) {
	leader := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	address := leader.Listener.Addr().String()
	log, told := testkit.Recorded()
	p := newProxy(holder(func() (string, error) { return address, nil }), "127.0.0.1:1", new(certificates), log)
	p.silence.limit, p.silence.every = 200*time.Millisecond, 10*time.Millisecond
	f := newFront(p, newMetrics(), func() mastercfg.SecurityMode { return mastercfg.SecurityOpen })
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() { f.askLeader(ctx) })
	t.Cleanup(asking.Wait)
	t.Cleanup(stop)
	ready := func() (int, string) {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
		return w.Code, w.Body.String()
	}
	becomes := func(code int, text string) {
		t.Helper()
		testkit.Eventually(t, 30*time.Second, text, func() bool {
			got, body := ready()
			return got == code && strings.Contains(body, text)
		})
	}
	becomes(http.StatusOK, "follower of "+address)
	leader.CloseClientConnections()
	leader.Close()
	becomes(http.StatusServiceUnavailable, "has not answered for")
	testkit.Eventually(t, 30*time.Second, "told", func() bool { return told.String() != "" })
	stop()
	asking.Wait()
	if text := told.String(); strings.Count(text, "does not answer this netmaster") != 1 {
		t.Errorf("the log: %s", text)
	}
}

// The store refuses a leader, whose lease it goes on to renew, when its user has lost rights or has another password.
func TestANetmasterThatTheStoreRefusesIsNotReadyAndSaysSo(t *testing.T) {
	log, told := testkit.Recorded()
	var refusal atomic.Pointer[error]
	self := "127.0.0.1:1"
	p := newProxy(holder(func() (string, error) {
		if err := refusal.Load(); err != nil {
			return "", *err
		}
		return self, nil
	}), self, new(certificates), log)
	p.silence.every = 10 * time.Millisecond
	f := newFront(p, newMetrics(), func() mastercfg.SecurityMode { return mastercfg.SecurityOpen })
	becomes := func(code int, text string) {
		t.Helper()
		testkit.Eventually(t, 30*time.Second, text, func() bool {
			w := httptest.NewRecorder()
			f.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
			return w.Code == code && strings.Contains(w.Body.String(), text)
		})
	}
	becomes(http.StatusServiceUnavailable, "the store names this netmaster as the leader")
	f.lead(http.NotFoundHandler())
	becomes(http.StatusOK, "leader")
	var asking sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	asking.Go(func() { f.askLeader(ctx) })
	t.Cleanup(asking.Wait)
	t.Cleanup(stop)
	var denied error = fault.New(fault.Denied, "permission denied")
	refusal.Store(&denied)
	becomes(http.StatusServiceUnavailable, "leader, the store does not answer it: permission denied")
	testkit.Eventually(t, 30*time.Second, "told", func() bool { return strings.Contains(told.String(), "the store refuses this netmaster") })
	refusal.Store(nil)
	becomes(http.StatusOK, "leader")
	stop()
	asking.Wait()
	if text := told.String(); strings.Count(text, "refuses this netmaster") != 1 {
		t.Errorf("the log: %s", text)
	}
}

// A user whose role was narrowed to reading goes on to read, and the store renews the lease: only a change would show it.
func TestALeaderThatMayNotWriteIsNotReadyAndSaysSo(t *testing.T) {
	log, told := testkit.Recorded()
	var refusal atomic.Pointer[error]
	self := "127.0.0.1:1"
	p := newProxy(holder(func() (string, error) { return self, nil }), self, new(certificates), log)
	p.silence.every = 10 * time.Millisecond
	f := newFront(p, newMetrics(), func() mastercfg.SecurityMode { return mastercfg.SecurityOpen })
	var full atomic.Bool
	var asked atomic.Int64
	f.mayWrite = func(context.Context) (bool, error) {
		asked.Add(1)
		if full.Load() {
			return false, nil
		}
		if err := refusal.Load(); err != nil {
			return true, *err
		}
		return true, nil
	}
	becomes := func(code int, text string) {
		t.Helper()
		testkit.Eventually(t, 30*time.Second, text, func() bool {
			w := httptest.NewRecorder()
			f.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
			return w.Code == code && strings.Contains(w.Body.String(), text)
		})
	}
	f.lead(http.NotFoundHandler())
	var asking sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	asking.Go(func() { f.askLeader(ctx) })
	t.Cleanup(asking.Wait)
	t.Cleanup(stop)
	becomes(http.StatusOK, "leader")
	var away error = fault.New(fault.Unavailable, "no answer") // an outage is none of the rights
	refusal.Store(&away)
	becomes(http.StatusOK, "leader")
	var denied error = fault.New(fault.Denied, "permission denied")
	refusal.Store(&denied)
	becomes(http.StatusServiceUnavailable, "leader, the store takes no changes from it: permission denied")
	testkit.Eventually(t, 30*time.Second, "told", func() bool { return strings.Contains(told.String(), "the store refuses this netmaster") })
	full.Store(true) // a full store is not asked
	refusal.Store(nil)
	before := asked.Load()
	testkit.Eventually(t, 30*time.Second, "it goes on to ask", func() bool { return asked.Load() >= before+3 })
	becomes(http.StatusServiceUnavailable, "leader, the store takes no changes from it: permission denied")
	if text := told.String(); strings.Contains(text, "accepts") {
		t.Errorf("the store was not asked: %s", text)
	}
	full.Store(false)
	becomes(http.StatusOK, "leader")
	testkit.Eventually(t, 30*time.Second, "told", func() bool { return strings.Contains(told.String(), "the store accepts this netmaster again") })
	stop()
	asking.Wait()
	if text := told.String(); strings.Count(text, "refuses this netmaster") != 1 {
		t.Errorf("the log: %s", text)
	}
}

// Where nobody may write nobody leads; then another one may be the first to lead again.
func TestAFollowerThatWasRefusedSaysWhenItIsAccepted(t *testing.T) {
	log, told := testkit.Recorded()
	var may atomic.Bool
	p := newProxy(holder(func() (string, error) {
		if !may.Load() {
			return "", errNoLeader
		}
		return "127.0.0.1:2", nil
	}), "127.0.0.1:1", new(certificates), log)
	p.silence.every = 10 * time.Millisecond
	f := newFront(p, newMetrics(), func() mastercfg.SecurityMode { return mastercfg.SecurityOpen })
	f.mayWrite = func(context.Context) (bool, error) {
		if !may.Load() {
			return true, fault.New(fault.Denied, "permission denied")
		}
		return true, nil
	}
	var asking sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	asking.Go(func() { f.askLeader(ctx) })
	t.Cleanup(asking.Wait)
	t.Cleanup(stop)
	testkit.Eventually(t, 30*time.Second, "it is refused", func() bool { return strings.Contains(told.String(), "the store refuses this netmaster") })
	may.Store(true)
	testkit.Eventually(t, 30*time.Second, "it is accepted", func() bool { return strings.Contains(told.String(), "the store accepts this netmaster again") })
}

// Members of etcd 3.6 renew no lease of a user that may not write: then nobody leads.
func TestWhereNobodyMayLeadReadyzNamesTheRefusal(t *testing.T) {
	p := newProxy(holder(func() (string, error) { return "", fault.New(fault.NotFound, "key not found") }), "127.0.0.1:1", new(certificates), testkit.Quiet())
	p.silence.every = 10 * time.Millisecond
	f := newFront(p, newMetrics(), func() mastercfg.SecurityMode { return mastercfg.SecurityOpen })
	f.mayWrite = func(context.Context) (bool, error) { return true, fault.New(fault.Denied, "permission denied") }
	var asking sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	asking.Go(func() { f.askLeader(ctx) })
	t.Cleanup(asking.Wait)
	t.Cleanup(stop)
	testkit.Eventually(t, 30*time.Second, "the cause is named", func() bool {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
		return w.Code == http.StatusServiceUnavailable && strings.Contains(w.Body.String(), "follower, the store takes no changes from it: permission denied")
	})
}

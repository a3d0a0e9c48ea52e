package daemon

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// pausing is a lock whose store does not answer while it is paused.
type pausing struct {
	holder atomic.Pointer[string]
	paused atomic.Bool
	asked  atomic.Int32
}

func (p *pausing) Holder(ctx context.Context, _ string) (string, error) {
	p.asked.Add(1)
	if p.paused.Load() {
		ctx, cancel := context.WithTimeout(ctx, 3*time.Second) // the store's client has a limit, too
		defer cancel()
		<-ctx.Done()
		return "", fault.New(fault.Unavailable, "get the lock: %w", ctx.Err())
	}
	return *p.holder.Load(), nil
}

// While the store does not answer a follower, as when its own member starts again, requests go on to the leader that
// is known, without asking the store for each. The follower is not ready.
func TestRequestsGoToTheKnownLeaderWhileTheStoreDoesNotAnswer(t *testing.T) {
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("done")) }))
	t.Cleanup(leader.Close)
	address := leader.Listener.Addr().String()
	store := new(pausing)
	store.holder.Store(&address)
	p := newProxy(store, "127.0.0.1:1", new(certificates), testkit.Quiet())
	defer p.transport.CloseIdleConnections()
	post := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest("POST", "/plugin/createEndpoint", http.NoBody))
		return w
	}
	if w := post(); w.Body.String() != "done" {
		t.Fatal(w.Code, w.Body)
	}
	store.paused.Store(true)
	testkit.Eventually(t, time.Minute, "the store is asked again, and does not answer", func() bool {
		asked := store.asked.Load()
		if w := post(); w.Body.String() != "done" {
			t.Fatal(w.Code, w.Body)
		}
		return store.asked.Load() > asked
	})
	asked := store.asked.Load()
	if w := post(); w.Body.String() != "done" || store.asked.Load() != asked {
		t.Errorf("%d %s; the store was asked %d times", w.Code, w.Body, store.asked.Load()-asked)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if leader, err := p.leader.address(ctx); !fault.Is(err, fault.Unavailable) {
		t.Errorf("where it matters that the store answers: %q, %v", leader, err)
	}
}

// A leader that the store has not named for long is not known any more: requests are refused, and their clients may
// try another netmaster.
func TestNobodyIsTakenForTheLeaderForLong(t *testing.T) {
	store := new(pausing)
	store.paused.Store(true)
	l := &lookup{store: store, known: "192.0.2.1:9999", until: time.Now().Add(-assumedFor - time.Second)}
	if leader, err := l.probable(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%q, %v", leader, err)
	}
}

// A known leader that does not lead any more says so, and is not asked again.
func TestALeaderThatHasLostIsForgottenWhileTheStoreDoesNotAnswer(t *testing.T) {
	var asked atomic.Int32
	former := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set(forwardedHeader, "former")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(former.Close)
	address := former.Listener.Addr().String()
	store := new(pausing)
	store.paused.Store(true)
	p := newProxy(store, "127.0.0.1:1", new(certificates), testkit.Quiet())
	defer p.transport.CloseIdleConnections()
	p.leader.known, p.leader.until = address, time.Now()
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest("POST", "/plugin/createEndpoint", http.NoBody))
	if w.Code == http.StatusOK || asked.Load() != 1 {
		t.Errorf("%d %s, the former leader was asked %d times", w.Code, w.Body, asked.Load())
	}
}

package daemon

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/contiv/netplugin/netmaster/api"
)

// hangUp is a leader that ends its first connections in the middle of a
// request, as one does that is killed.
func hangUp(t *testing.T, times int64) (address string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if asked.Add(1) <= times {
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write([]byte(r.Method + string(body)))
	}))
	t.Cleanup(leader.Close)
	return leader.Listener.Addr().String(), asked
}

func forwarded(leader, method, body, accept string) *httptest.ResponseRecorder {
	p := newProxy(holder(func() (string, error) { return leader, nil }), "127.0.0.1:1")
	defer p.transport.CloseIdleConnections()
	r := httptest.NewRequest(method, "/api/v1/tenants/x/", strings.NewReader(body))
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func TestAReadThatWasCutOffIsRepeatedWithTheNextLeader(t *testing.T) {
	for _, method := range []string{"GET", "HEAD"} {
		leader, asked := hangUp(t, 2)
		if w := forwarded(leader, method, "", ""); w.Code != http.StatusOK || asked.Load() != 3 {
			t.Errorf("%s: %d %s after %d tries", method, w.Code, w.Body, asked.Load())
		}
	}
}

// A change that was cut off may have been made: only its sender can tell
// whether it may be made twice.
func TestAChangeThatWasCutOffIsNotRepeated(t *testing.T) {
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		leader, asked := hangUp(t, 1)
		w := forwarded(leader, method, "{}", "")
		if w.Code != http.StatusBadGateway || !strings.HasPrefix(w.Body.String(), "leader does not answer: ") || asked.Load() != 1 {
			t.Errorf("%s: %d %s after %d tries", method, w.Code, w.Body, asked.Load())
		}
	}
}

func TestALeaderThatDoesNotAnswerIsAProblemForClientsThatAsk(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := silent.Addr().String()
	silent.Close()
	w := forwarded(gone, "POST", "{}", "application/problem+json")
	var problem struct {
		Code            int
		Reason, Message string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
		t.Fatalf("%d %q: %v", w.Code, w.Body, err)
	}
	if w.Code != 502 || problem.Code != 502 || problem.Reason != "unavailable" || !strings.HasPrefix(problem.Message, "leader does not answer: ") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := forwarded(gone, "POST", strings.Repeat("x", api.MaxBody+1), "application/problem+json"); w.Code != 413 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

package daemon

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/test/testkit"
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
	p := newProxy(holder(func() (string, error) { return leader, nil }), "127.0.0.1:1", new(certificates), testkit.Quiet())
	defer p.transport.CloseIdleConnections()
	r := httptest.NewRequest(method, "/api/v1/tenants/x/", strings.NewReader(body))
	r.Header.Set("Accept", accept)
	r.Header.Set("Connection", contivmodel.RequestIDHeader)
	w := httptest.NewRecorder()
	withRequestID(p).ServeHTTP(w, r)
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

// A change whose forwarding was interrupted may have been made: only its sender knows whether it may be repeated.
func TestAChangeThatWasCutOffIsNotRepeated(t *testing.T) {
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		leader, asked := hangUp(t, 1)
		w := forwarded(leader, method, "{}", "")
		if w.Code != http.StatusBadGateway || !strings.HasPrefix(w.Body.String(), "leader does not answer: ") || asked.Load() != 1 {
			t.Errorf("%s: %d %s after %d tries", method, w.Code, w.Body, asked.Load())
		}
	}
}

// If the leader ends a handshake nothing was sent yet, and the change is retried.
func TestAHandshakeThatFailsIsAFailureToConnect(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		plain  bool
	}{"nothing": {"", false}, "plain HTTP": {plainRefused, true}} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			conn, err := l.Accept()
			if err == nil {
				_, err = io.WriteString(conn, c.answer)
				err = errors.Join(err, conn.Close())
			}
			ended <- errors.Join(err, l.Close())
		}()
		_, err = dialTLS(&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}})(t.Context(), "tcp", l.Addr().String())
		if !isDialError(err) || isPlain(err) != c.plain {
			t.Errorf("%s: %v, nothing was sent: %t, plain: %t", name, err, isDialError(err), isPlain(err))
		}
		if err := <-ended; err != nil {
			t.Error(err)
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
	if w := forwarded(gone, "POST", strings.Repeat("x", rest.MaxBody+1), "application/problem+json"); w.Code != 413 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Headers that a header declares as the connection's end with it; the others arrive in both directions as the
// client and the leader have sent them.
func TestTheConnectionsOwnHeadersEndWithIt(t *testing.T) {
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, want := range map[string]string{"X-Hop": "", "X-End": "kept", "X-Forwarded-For": "192.0.2.1", "X-Forwarded-Host": "example.com", "X-Forwarded-Proto": "http", "Forwarded": "", "Contiv-Forwarded": "127.0.0.1:1"} {
			if got := strings.Join(r.Header[name], ", "); got != want {
				t.Errorf("the leader gets %s %q, want %q", name, got, want)
			}
		}
		if r.URL.RawQuery != "a=1;b&c=%zz" {
			t.Errorf("query %s", r.URL.RawQuery)
		}
		w.Header().Set("Connection", "X-Answer-Hop")
		w.Header().Set("X-Answer-Hop", "dropped")
		w.Header().Set("X-Answer-End", "kept")
		w.Header().Set("Trailer", "X-Sum")
		_, _ = w.Write([]byte("answer"))
		w.Header().Set("X-Sum", "42")
	}))
	t.Cleanup(leader.Close)
	p := newProxy(holder(func() (string, error) { return leader.Listener.Addr().String(), nil }), "127.0.0.1:1", new(certificates), testkit.Quiet())
	defer p.transport.CloseIdleConnections()
	r := httptest.NewRequest("GET", "/version?a=1;b&c=%zz", nil)
	r.Header = http.Header{"Connection": {"X-Hop"}, "X-Hop": {"dropped"}, "X-End": {"kept"}, "X-Forwarded-For": {"10.9.9.9"}, "X-Forwarded-Host": {"forged"}, "X-Forwarded-Proto": {"https"}, "Forwarded": {"for=10.9.9.9"}}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	got := w.Result()
	if got.Header.Get("X-Answer-Hop") != "" || got.Header.Get("X-Answer-End") != "kept" || got.Trailer.Get("X-Sum") != "42" || w.Body.String() != "answer" {
		t.Errorf("the client gets %v %v %q", got.Header, got.Trailer, w.Body)
	}
}

// An answer has one id, whichever netmaster gave it.
func TestAForwardedRequestKeepsItsID(t *testing.T) {
	var asked []string
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get(contivmodel.RequestIDHeader))
		w.WriteHeader(http.StatusContinue) // which drops headers
		rest.Identify(w, r)
	}))
	t.Cleanup(leader.Close)
	w := forwarded(leader.Listener.Addr().String(), "GET", "", "")
	if told := w.Header().Values(contivmodel.RequestIDHeader); len(told) != 1 || len(asked) != 1 || told[0] != asked[0] || told[0] == "" {
		t.Errorf("the leader gets %q, the client %q", asked, told)
	}
}

// A client has to notice that the leader's answer is incomplete.
func TestAnAnswerThatIsCutOffDoesNotLookWhole(t *testing.T) {
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("half of "))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(leader.Close)
	follower := httptest.NewServer(newProxy(holder(func() (string, error) { return leader.Listener.Addr().String(), nil }), "127.0.0.1:1", new(certificates), testkit.Quiet()))
	t.Cleanup(follower.Close)
	resp, err := http.Get(follower.URL + "/version")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the client takes %q for the whole answer", body)
	}
}

// A client has a minute for the leader's answer whichever netmaster it asks.
func TestLongAnAnswerMayTakeAsLongThroughAnotherNetmaster(t *testing.T) {
	testkit.TakesLong(t)
	leader := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(answerLimit - 10*time.Second): // the time alone, without the work
		case <-r.Context().Done():
		}
		_, _ = w.Write([]byte("done"))
	}))
	t.Cleanup(leader.Close)
	if w := forwarded(leader.Listener.Addr().String(), "POST", "{}", ""); w.Code != http.StatusOK || w.Body.String() != "done" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

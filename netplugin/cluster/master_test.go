package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

// book is a directory kept in memory.
type book struct {
	mu      sync.Mutex
	holder  string
	masters []string
	err     error
	lookups int
}

func (b *book) set(holder string, masters ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holder, b.masters = holder, masters
}

func (b *book) Holder(context.Context, string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lookups++
	if b.err != nil {
		return "", b.err
	}
	if b.holder == "" {
		return "", fault.New(fault.NotFound, "key not found: lock")
	}
	return b.holder, nil
}

func (b *book) Services(context.Context, string) ([]objdb.Service, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var services []objdb.Service
	for _, master := range b.masters {
		host, port, err := net.SplitHostPort(master)
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(port)
		if err != nil {
			return nil, err
		}
		services = append(services, objdb.Service{HostAddr: host, Port: n})
	}
	return services, b.err
}

// serve starts a netmaster that answers like handler.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// granting answers every createEndpoint with the container's name.
func granting(w http.ResponseWriter, r *http.Request) {
	var request mastercfg.CreateEndpointRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set(mastercfg.RevisionHeader, "42")
	answer := mastercfg.CreateEndpointResponse{EndpointConfig: mastercfg.CfgEndpointState{ID: request.ConfigEP.Container}}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func answering(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// refusing returns an address without a listener.
func refusing(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// patient is how long anything may take that must happen; short is for netmasters that never answer.
var (
	patient = Limits{Total: time.Minute, Try: time.Minute, Lookup: time.Minute, Store: time.Minute}
	short   = Limits{Total: time.Minute, Try: 300 * time.Millisecond, Lookup: time.Second, Store: 300 * time.Millisecond}
)

var request = mastercfg.CreateEndpointRequest{TenantName: "blue", NetworkName: "web", ConfigEP: mastercfg.ConfigEP{Container: "c1"}}

func create(t *testing.T, b *book) (mastercfg.CfgEndpointState, int64, error) {
	t.Helper()
	m := NewMaster(b, patient, nil)
	defer m.Close()
	return m.CreateEndpoint(t.Context(), request)
}

func expectGranted(t *testing.T, b *book, limits Limits) {
	t.Helper()
	m := NewMaster(b, limits, nil)
	defer m.Close()
	record, revision, err := m.CreateEndpoint(t.Context(), request)
	if err != nil || record.ID != "c1" || revision != 42 {
		t.Fatalf("got %q at %d, %v; want c1 at 42", record.ID, revision, err)
	}
}

func TestLeaderGrantsWithTheRevision(t *testing.T) {
	b := &book{}
	b.set(serve(t, granting))
	expectGranted(t, b, patient)
}

func TestAnotherMasterIsAskedWhenTheHolderFails(t *testing.T) {
	for name, holder := range map[string]func(t *testing.T) string{
		"refuses connections": refusing,
		"is not leader any more": func(t *testing.T) string {
			return serve(t, answering(503, "application/problem+json", `{"code":503,"reason":"not-leader","message":"netmaster does not lead"}`))
		},
		"knows no leader":            func(t *testing.T) string { return serve(t, answering(500, "text/plain", "Leader not found\n")) },
		"cannot reach the leader":    func(t *testing.T) string { return serve(t, answering(502, "text/plain", "bad gateway")) },
		"is stepping down":           func(t *testing.T) string { return serve(t, answering(503, "text/plain", "")) },
		"breaks off in the answer":   func(t *testing.T) string { return serve(t, breakingOff) },
		"has an address that is not": func(*testing.T) string { return "no such address" },
		"hangs": func(t *testing.T) string {
			release := make(chan struct{})
			address := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				select {
				case <-release:
				case <-r.Context().Done():
				}
			})
			t.Cleanup(func() { close(release) })
			return address
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &book{}
			address := holder(t)
			b.set(address, serve(t, granting))
			expectGranted(t, b, short)
		})
	}
}

func breakingOff(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, "{")
}

func TestHolderIsLookedUpBeforeEachTry(t *testing.T) {
	b := &book{}
	successor := serve(t, granting)
	var tries atomic.Int32
	b.set(serve(t, func(w http.ResponseWriter, _ *http.Request) {
		tries.Add(1)
		b.set(successor)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	expectGranted(t, b, patient)
	if tries.Load() != 1 {
		t.Errorf("the old leader was asked %d times, want 1", tries.Load())
	}
}

func TestRequestWaitsForALeaderToBeElected(t *testing.T) {
	b := &book{}
	b.set("")
	leader := serve(t, granting)
	timer := time.AfterFunc(200*time.Millisecond, func() { b.set(leader) })
	defer timer.Stop()
	expectGranted(t, b, patient)
}

func TestRefusalIsPassedOnWithItsKindAndNotRepeated(t *testing.T) {
	var tries atomic.Int32
	b := &book{}
	b.set(serve(t, func(w http.ResponseWriter, r *http.Request) {
		tries.Add(1)
		if !strings.Contains(r.Header.Get("Accept"), "application/problem+json") {
			t.Errorf("Accept: %q", r.Header.Get("Accept"))
		}
		answering(507, "application/problem+json; charset=utf-8",
			`{"code":507,"reason":"exhausted","message":"network web.blue: no address left","field":"subnet","details":["used 254"]}`)(w, r)
	}))
	_, _, err := create(t, b)
	refused := fault.As(err)
	if refused == nil || refused.Kind != fault.Exhausted || refused.Message != "network web.blue: no address left" ||
		refused.Field != "subnet" || len(refused.Details) != 1 {
		t.Errorf("got %#v", err)
	}
	if tries.Load() != 1 {
		t.Errorf("asked %d times, want 1", tries.Load())
	}
}

// A client with an expired certificate gets 401: a new connection presents the next one.
func TestWhoIsNotKnownAsksOnceMoreOnANewConnection(t *testing.T) {
	var tries atomic.Int32
	var first atomic.Pointer[string] // address of the client of the first connection
	unknown := answering(401, "application/problem+json", `{"code":401,"reason":"unauthenticated","message":"certificate: it has ended"}`)
	b := &book{}
	b.set(serve(t, func(w http.ResponseWriter, r *http.Request) {
		tries.Add(1)
		from := r.RemoteAddr
		if first.CompareAndSwap(nil, &from) || *first.Load() == from {
			unknown(w, r)
			return
		}
		granting(w, r)
	}))
	expectGranted(t, b, patient)
	tries.Store(0)
	b.set(serve(t, func(w http.ResponseWriter, r *http.Request) { tries.Add(1); unknown(w, r) }))
	m := NewMaster(b, Limits{Total: time.Minute, Try: time.Minute}, nil)
	defer m.Close()
	if _, _, err := m.CreateEndpoint(t.Context(), request); !fault.Is(err, fault.Unauthenticated) || tries.Load() != 2 {
		t.Errorf("%v after %d tries", err, tries.Load())
	}
}

func TestNonsenseFromNetmasterIsAnError(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"plain text error":   answering(500, "text/plain", "boom"),
		"not JSON":           answering(200, "application/json", "<html>"),
		"endless":            answering(200, "application/json", strings.Repeat(" ", maxAnswer+1)),
		"redirect":           func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"problem of no kind": answering(418, "application/problem+json", `{"message":"teapot"}`),
		"revision of words": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(mastercfg.RevisionHeader, "soon")
			_, _ = io.WriteString(w, "{}")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &book{}
			b.set(serve(t, handler))
			if _, _, err := create(t, b); !fault.Is(err, fault.Internal) {
				t.Errorf("got %v, want an internal error", err)
			}
		})
	}
}

func TestNobodyAnswersInTime(t *testing.T) {
	b := &book{}
	b.set(refusing(t), refusing(t))
	limits := short
	limits.Total = time.Second
	m := NewMaster(b, limits, nil)
	defer m.Close()
	start := time.Now()
	_, _, err := m.CreateEndpoint(t.Context(), request)
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v, want unavailable because connections are refused", err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
	if b.lookups < 3 {
		t.Errorf("looked up the leader %d times", b.lookups)
	}
}

func TestStoreAwayFailsSoonerThanTheDeadline(t *testing.T) {
	b := &book{err: fault.New(fault.Unavailable, "etcd at http://127.0.0.1:1: get: refused")}
	limits := short
	limits.Total = time.Minute
	m := NewMaster(b, limits, nil)
	defer m.Close()
	start := time.Now()
	_, _, err := m.CreateEndpoint(t.Context(), request)
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "etcd") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestCallerWhoGivesUpIsHeard(t *testing.T) {
	b := &book{}
	b.set("")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := NewMaster(b, patient, nil)
	if err := m.DeleteEndpoint(ctx, mastercfg.DeleteEndpointRequest{}); err == nil {
		t.Error("no error")
	}
}

func TestDeleteSendsTheRequestAndConnectionsAreReused(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != mastercfg.DeleteEndpointPath || r.Method != http.MethodPost {
			http.Error(w, fmt.Sprintf("%s %s", r.Method, r.URL.Path), http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, "{}")
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	b := &book{}
	b.set(strings.TrimPrefix(server.URL, "http://"))
	m := NewMaster(b, patient, nil)
	defer m.Close()
	for range 5 {
		if err := m.DeleteEndpoint(t.Context(), mastercfg.DeleteEndpointRequest{EndpointID: "c1"}); err != nil {
			t.Fatal(err)
		}
	}
	if connections.Load() != 1 {
		t.Errorf("%d connections for 5 requests", connections.Load())
	}
}

func TestReachableNeedsALeaderThatAnswers(t *testing.T) {
	b := &book{}
	b.set(serve(t, answering(200, "application/json", "{}")))
	m := NewMaster(b, patient, nil)
	defer m.Close()
	if err := m.Reachable(t.Context()); err != nil {
		t.Error(err)
	}
	b.set(refusing(t))
	if err := m.Reachable(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	b.err = errors.New("store is upside down")
	if err := m.Reachable(t.Context()); err == nil {
		t.Error("no error")
	}
}

func TestWhoAnsweredLastIsAskedFirstUntilThatFails(t *testing.T) {
	answering := httptest.NewServer(http.HandlerFunc(granting))
	first := strings.TrimPrefix(answering.URL, "http://")
	b := &book{holder: first}
	m := NewMaster(b, patient, nil)
	defer m.Close()
	ask := func() {
		t.Helper()
		if _, _, err := m.CreateEndpoint(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	ask()
	if b.lookups != 1 {
		t.Errorf("two requests cost %d lookups", b.lookups)
	}
	answering.Close()
	b.set(serve(t, granting))
	ask()
	if b.lookups != 2 {
		t.Errorf("the leader was looked up %d times after the first had gone", b.lookups-1)
	}
}

// A node with a new certificate presents it on new connections: existing ones are not used for requests any more,
// which would be refused when the former certificate has expired.
func TestAnotherCertificateIsShownAtOnce(t *testing.T) {
	var from []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from = append(from, r.RemoteAddr)
		granting(w, r)
	}))
	defer server.Close()
	b := &book{}
	b.set(server.Listener.Addr().String())
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	config := &tls.Config{RootCAs: pool}
	m := NewMaster(b, Limits{Total: time.Minute, Try: time.Minute}, nil)
	defer m.Close()
	m.Secure(func() *tls.Config { return config })
	for i := range 4 {
		if i == 2 {
			config = &tls.Config{RootCAs: pool}
		}
		if _, _, err := m.CreateEndpoint(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	if len(from) != 4 || from[0] != from[1] || from[1] == from[2] || from[2] != from[3] {
		t.Errorf("with another certificate from the third on, requests come from %q", from)
	}
}

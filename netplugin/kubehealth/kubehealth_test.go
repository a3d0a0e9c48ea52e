package kubehealth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/test/testkit"
)

// node is one that tells what it is set to.
type node struct {
	mu      sync.Mutex
	health  agent.KubeHealth
	problem error
	changed chan struct{}
	closed  map[uint16]string // as reported to it
}

// errUnread is why a node is not ready that serves as before.
var errUnread = errors.New("the store was not read")

func servesAsBefore(notReady error) bool { return errors.Is(notReady, errUnread) }

func newNode() *node { return &node{changed: make(chan struct{})} }

func (n *node) KubeHealth() agent.KubeHealth {
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.health
	h.Changed = n.changed
	return h
}

func (n *node) Ready() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.problem
}

func (n *node) TellClosed(why map[uint16]string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = why
}

func (n *node) set(h agent.KubeHealth, problem error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.health, n.problem = h, problem
	close(n.changed)
	n.changed = make(chan struct{})
}

func TestWhatANodeTells(t *testing.T) {
	web := agent.HealthPort{Namespace: "shop", Name: "web", Backends: 2}
	none := web
	none.Backends = 0
	updated := time.Unix(1700000000, 0)
	for _, c := range []struct {
		name    string
		health  agent.KubeHealth
		problem error
		path    string // empty: of the service
		status  int
		says    string
	}{
		{"backends are here", agent.KubeHealth{Ports: map[uint16]agent.HealthPort{30999: web}}, nil, "", 200, `{"localEndpoints":2,"service":{"name":"web","namespace":"shop"},"serviceProxyHealthy":true}`},
		{"none is here", agent.KubeHealth{Ports: map[uint16]agent.HealthPort{30999: none}}, nil, "", 503, `"localEndpoints":0`},
		{"the node does not serve", agent.KubeHealth{Ports: map[uint16]agent.HealthPort{30999: web}}, errors.New("no switch"), "", 503, `"serviceProxyHealthy":false`},
		{"the service has gone", agent.KubeHealth{}, nil, "", 503, "30999"},
		{"the proxy is well", agent.KubeHealth{Updated: updated}, nil, "/healthz", 200, `"lastUpdated":"2023-11-14 22:13:20 +0000 UTC","nodeEligible":true`},
		{"the proxy is not", agent.KubeHealth{}, errors.New("no switch"), "/healthz", 503, `"nodeEligible":true,"reason":"no switch"`},
		{"it is not, and that is told where nobody asks whether it stays", agent.KubeHealth{}, errors.New("no switch: of nobody's concern"), "/livez", 503, `"reason":"no switch"}`},
		{"the store was not read yet", agent.KubeHealth{}, errUnread, "/healthz", 200, `"nodeEligible":true`},
		{"the node goes", agent.KubeHealth{Leaving: true}, nil, "/healthz", 503, `"nodeEligible":false`},
		{"the node goes, and lives", agent.KubeHealth{Leaving: true}, nil, "/livez", 200, "lastUpdated"},
	} {
		n := newNode()
		n.set(c.health, c.problem)
		s := New(n, servesAsBefore, testkit.Quiet())
		handler := s.fixed[healthAddress]
		if c.path == "" {
			handler = s.service(30999)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/"+strings.TrimPrefix(c.path, "/"), nil))
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: %d %s, want %d and %s", c.name, w.Code, w.Body, c.status, c.says)
		}
		kind, sniff := w.Header().Get("Content-Type"), w.Header().Get("X-Content-Type-Options")
		if asJSON := strings.Contains(w.Body.String(), "{"); sniff != "nosniff" || asJSON != (kind == "application/json") {
			t.Errorf("%s: %s is of type %q, sniffing: %q", c.name, w.Body, kind, sniff)
		}
		weight := w.Header().Get("X-Load-Balancing-Endpoint-Weight")
		if of, known := c.health.Ports[30999]; c.path == "" && known && weight != fmt.Sprint(of.Backends) {
			t.Errorf("%s: weight %q", c.name, weight)
		}
	}
}

// A port is open exactly while a service has it, also if it was taken at first.
func TestAPortIsOpenWhileAServiceHasIt(t *testing.T) {
	taken, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(taken.Addr().(*net.TCPAddr).Port)
	n := newNode()
	s := New(n, servesAsBefore, testkit.Quiet())
	s.fixed = nil // this machine may have a proxy
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); ctx.Err() == nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	health := agent.KubeHealth{Ports: map[uint16]agent.HealthPort{port: {Namespace: "shop", Name: "web", Backends: 1}}}
	n.set(health, nil)
	taken.Close()
	ask := func() error {
		n.set(n.KubeHealth(), nil) // a change triggers another check
		answer, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if body, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != 200 {
			return fmt.Errorf("%d %s %w", answer.StatusCode, body, err)
		}
		return nil
	}
	within, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := testkit.Poll(within, ask); err != nil {
		t.Fatal(err)
	}
	n.set(agent.KubeHealth{}, nil)
	if err := testkit.Poll(within, func() error {
		if ask() == nil {
			return errors.New("still open")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// A port in use answers for its other owner: this is reported to the node, once it was tried again.
func TestAPortThatIsNotFreeIsTold(t *testing.T) {
	taken, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := uint16(taken.Addr().(*net.TCPAddr).Port)
	n := newNode()
	s := New(n, servesAsBefore, testkit.Quiet())
	ports := map[uint16]agent.HealthPort{port: {Namespace: "shop", Name: "web"}}
	var serving sync.WaitGroup
	defer serving.Wait()
	try := func(closed bool) {
		t.Helper()
		s.listen(t.Context(), map[string]http.Handler{addressOf(port): s.service(port)}, &serving)
		s.logFailedListeners(ports)
		if got := n.closed[port]; (got != "") != closed || closed && !strings.Contains(got, fmt.Sprintf("nobody is told at :%d", port)) || closed && !strings.Contains(got, "address already in use") {
			t.Errorf("told %q", got)
		}
	}
	try(false) // a netplugin that ends may have it
	failed := s.failed[addressOf(port)]
	s.failed[addressOf(port)] = failure{failed.why, failed.since.Add(-retryEvery)}
	try(true)
	taken.Close()
	try(false)
	s.listen(t.Context(), nil, &serving)
}

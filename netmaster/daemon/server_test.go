package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/test/testkit"
)

// serving runs a server with a limit of connections; its handler reads the body, and waits for release at the path
// /wait.
func serving(t *testing.T, limit int, release <-chan struct{}) (*server, string) {
	t.Helper()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if r.URL.Path == "/wait" {
			<-release
		}
		_, _ = io.WriteString(w, "hello")
	})
	s := newServer(handler, new(certificates), nil, testkit.Quiet())
	s.conn.limit = limit
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.serve(l) }()
	t.Cleanup(func() {
		if err := s.stop(time.Second); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s, l.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ask sends a request on an open connection and returns the answer's body.
func ask(conn net.Conn, path string) (string, error) {
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func TestConnectionsThatSayNothingKeepNobodyOut(t *testing.T) {
	s, addr := serving(t, 20, nil)
	for i := range 2000 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if i%100 != 0 {
			continue
		}
		if got, err := ask(dial(t, addr), "/"); err != nil || got != "hello" {
			t.Fatalf("after %d silent connections: %q %v", i, got, err)
		}
	}
	testkit.Eventually(t, time.Minute, "the bound holds", func() bool { return s.conn.count() <= 20 })
}

// A request whose body does not arrive counts as none: its connection is closed like a silent one.
func TestRequestsThatDoNotEndKeepNobodyOut(t *testing.T) {
	const limit = 20
	s, addr := serving(t, limit, nil)
	for i := range 3 * limit {
		if _, err := io.WriteString(dial(t, addr), "POST /api/v1/join HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n1"); err != nil {
			t.Fatal(err)
		}
		if got, err := ask(dial(t, addr), "/"); err != nil || got != "hello" {
			t.Fatalf("after %d requests without an end: %q %v", i, got, err)
		}
	}
	testkit.Eventually(t, time.Minute, "the bound holds", func() bool { return s.conn.count() <= limit })
}

func TestAConnectionInTheMiddleOfARequestIsNotShed(t *testing.T) {
	release := make(chan struct{})
	s, addr := serving(t, 5, release)
	busy := dial(t, addr)
	answered := make(chan error, 1)
	go func() {
		got, err := ask(busy, "/wait")
		if err == nil && got != "hello" {
			err = fmt.Errorf("answer %q", got)
		}
		answered <- err
	}()
	testkit.Eventually(t, time.Minute, "the request is being answered", func() bool {
		s.conn.mu.Lock()
		defer s.conn.mu.Unlock()
		return len(s.conn.open) == 1 && s.conn.silent.Len() == 0
	})
	const silent = 50
	var others []net.Conn
	for range silent {
		others = append(others, dial(t, addr))
	}
	for _, conn := range others[:silent-4] { // all have been accepted then, and the answer's was not among the silent ones
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a silent connection is not shed: %d bytes, %v", n, err)
		}
	}
	close(release)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	// Its connection can be used again.
	testkit.Eventually(t, time.Minute, "the answer's connection is silent again", func() bool { return s.conn.count() <= 5 })
}

// Neither silent connections nor requests whose body does not arrive delay the shutdown, whatever their time
// limits.
func TestSilentConnectionsDoNotDelayTheEnd(t *testing.T) {
	storetest.Open(t)
	n := run(t, func(c *Config) { c.headerLimit, c.requestLimit = time.Hour, time.Hour })
	leader(t, n)
	for range 200 {
		dial(t, n.addr)
	}
	for range 10 {
		conn := dial(t, n.addr)
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "POST /api/v1/tenants/red/ HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") { // its body is waited for
			t.Fatalf("%q %v", line, err)
		}
	}
	n.shut() // fails if it takes a minute
}

func TestHugeHeadersAreRefused(t *testing.T) {
	storetest.Open(t)
	n := run(t)
	code, _, err := n.try("GET", "/version", "", "X-Filler", strings.Repeat("x", 1<<20))
	if err == nil && code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("answered %d", code)
	}
	if code, _, err := n.try("GET", "/healthz", ""); err != nil || code != http.StatusOK {
		t.Errorf("after that: %d %v", code, err)
	}
}

func TestTheControlAddressGetsAListenerOfItsOwnOnlyWhereNeeded(t *testing.T) {
	for _, c := range []struct {
		external, control string
		covered           bool
	}{
		{"0.0.0.0:9999", "10.1.1.1:9999", true},
		{"[::]:9999", "10.1.1.1:9999", true},
		{":9999", "10.1.1.1:9999", true},
		{"0.0.0.0:9999", "10.1.1.1:9998", false},
		{"10.1.1.2:9999", "10.1.1.1:9999", false},
		{"10.1.1.1:9999", "10.1.1.1:9999", true},
	} {
		if got := covers(c.external, c.control); got != c.covered {
			t.Errorf("%s covers %s: %v", c.external, c.control, got)
		}
	}
}

// Nodes keep endpoints from every port that a netmaster registers.
func TestAllPortsOfANetmasterAreRegistered(t *testing.T) {
	for _, c := range []struct{ external, control, authProxy, others string }{
		{"0.0.0.0:9999", "10.1.1.1:9999", "", "[]"},
		{"0.0.0.0:443", "10.1.1.1:9999", "", "[443]"},
		{"0.0.0.0:9999", "10.1.1.1:9999", ":10000", "[10000]"},
		{"[::]:10000", "[2001:db8::1]:9999", "[::]:10000", "[10000]"},
		{"0.0.0.0:9999", "10.1.1.1:9998", "10.1.1.2:10000", "[9999 10000]"},
	} {
		d := &Daemon{cfg: Config{Listen: c.external, Control: c.control, Security: Security{AuthProxy: c.authProxy}}}
		if got := fmt.Sprint(d.otherPorts()); got != c.others {
			t.Errorf("%v: registered are also %s", c, got)
		}
	}
}

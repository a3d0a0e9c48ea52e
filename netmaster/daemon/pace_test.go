package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
)

// pacedServer answers every request by handler, with this limit for a piece,
// and, to show that it does not count, a second for an answer.
func pacedServer(t *testing.T, limit time.Duration, handler http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewUnstartedServer(paced(handler, limit))
	s.Config.WriteTimeout = time.Second
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestClientsThatDoNotReadAreLetGo(t *testing.T) {
	written := make(chan error, 1)
	addr := pacedServer(t, 200*time.Millisecond, func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.Copy(w, neverEnding{})
		written <- err
	})
	conn := dial(t, addr)
	if _, err := fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-written:
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("let go because of %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the server still writes")
	}
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return len(p), nil }

// The limit is longer than a busy machine keeps this reader from reading, so that it is not disconnected.
func TestAReaderThatGoesOnGetsALongAnswerWhole(t *testing.T) {
	answer := bytes.Repeat([]byte("0123456789abcde\n"), 1<<20) // more than sockets hold
	addr := pacedServer(t, paceTime, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) })
	conn := dial(t, addr)
	if _, err := fmt.Fprint(conn, "GET / HTTP/1.0\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	// In eight parts with pauses, longer together than an answer may take.
	var got []byte
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for part := make([]byte, len(answer)/8); ; <-tick.C {
		n, err := io.ReadFull(conn, part)
		got = append(got, part[:n]...)
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			t.Fatalf("after %d bytes: %v", len(got), err)
		}
	}
	if !bytes.HasSuffix(got, answer) {
		t.Errorf("%d bytes came, the answer has %d", len(got), len(answer))
	}
}

// pieces records the deadline for the write of each piece.
type pieces struct {
	httptest.ResponseRecorder
	deadlines []time.Time // of all pieces; the last one is for the rest in the server
	sizes     []int
}

func (p *pieces) SetWriteDeadline(at time.Time) error {
	p.deadlines = append(p.deadlines, at)
	return nil
}

func (p *pieces) Write(b []byte) (int, error) {
	if len(p.deadlines) != len(p.sizes)+1 {
		return 0, fmt.Errorf("piece %d has no time of its own", len(p.sizes))
	}
	p.sizes = append(p.sizes, len(b))
	return len(b), nil
}

func TestEachPieceOfAnAnswerHasItsOwnTime(t *testing.T) {
	const limit, length = time.Minute, 3*pacePiece + 1
	p := &pieces{}
	began := time.Now()
	paced(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n, err := w.Write(make([]byte, length)); n != length || err != nil {
			t.Errorf("%d bytes written: %v", n, err)
		}
	}), limit).ServeHTTP(p, httptest.NewRequest("GET", "/", nil))
	if want := []int{pacePiece, pacePiece, pacePiece, 1}; !slices.Equal(p.sizes, want) || len(p.deadlines) != len(want)+1 {
		t.Fatalf("pieces of %d bytes, want %d, with %d times", p.sizes, want, len(p.deadlines))
	}
	for i, at := range p.deadlines {
		if after := at.Sub(began); after < limit || i > 0 && at.Before(p.deadlines[i-1]) {
			t.Errorf("time %d ends after %s", i, after)
		}
	}
}

// described returns the paths of the API's document that can be read.
func described(n *node) (routes []string) {
	n.Helper()
	var document struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal([]byte(n.ok("GET", "/api/v1/openapi.json", "")), &document); err != nil {
		n.Fatal(err)
	}
	for path, methods := range document.Paths {
		if _, ok := methods["get"]; ok {
			route := strings.NewReplacer("{key}", "x", "{user}", "x", "{id}", "x", "{name}", "x", "{host}", "x").Replace(path)
			if strings.Contains(route, "{") {
				n.Fatalf("%s: what stands for what is in braces?", path)
			}
			routes = append(routes, route)
		}
	}
	if len(routes) < 20 { // the objects alone have more
		n.Fatalf("%d paths are described", len(routes))
	}
	return routes
}

// Any request by a client that reads a byte and sleeps, of the leader or through a follower, costs a connection
// for a while, and stops nothing else.
func TestOneByteReadersOfEveryRouteDisturbNobody(t *testing.T) {
	storetest.Open(t)
	short := func(c *Config) { c.requestLimit = time.Second }
	first, followers := leader(t, run(t, short), run(t, short))
	routes := append(described(first), "/version", "/info", "/services", "/service/x", "/debug/ofnet", "/metrics",
		"/healthz", "/readyz", "/api/v1/tenants/?watch=true", "/nowhere")
	for _, n := range []*node{first, followers[0]} {
		var conns []net.Conn
		for _, route := range routes {
			conn := dial(t, n.addr)
			if err := conn.(*net.TCPConn).SetReadBuffer(1); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", route); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
				t.Errorf("%s: %v", route, err)
			}
			conns = append(conns, conn)
		}
		for i := range 50 {
			name := fmt.Sprintf("t%d", i)
			n.ok("POST", "/api/v1/tenants/"+name+"/", `{"tenantName":"`+name+`"}`)
			n.ok("DELETE", "/api/v1/tenants/"+name+"/", "")
		}
		for _, conn := range conns {
			conn.Close()
		}
		n.ok("GET", "/readyz", "")
	}
}

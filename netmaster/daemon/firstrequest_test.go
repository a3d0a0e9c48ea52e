package daemon

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/rootsocket"
)

// header is the time for a header in these tests.
const header = 300 * time.Millisecond

// waiting serves on TLS, plain and the socket, with a short time for headers, and returns a way to open each.
func waiting(t *testing.T) map[string]func() net.Conn {
	t.Helper()
	p, tcp := founded(t)
	path := filepath.Join(t.TempDir(), "socket")
	socket, err := rootsocket.Listen(path, testkit.Quiet())
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(named, p, nil, testkit.Quiet())
	s.http.ReadHeaderTimeout = header
	ended := make(chan error, 2)
	go func() {
		ended <- s.serve(encrypting{Listener: tcp, config: p.server(), hasCertificate: p.hasAuthorities, handshakes: newHandshakes(testkit.Quiet())})
	}()
	go func() { ended <- s.serve(encrypting{Listener: socket}) }()
	t.Cleanup(func() {
		if err := errors.Join(s.stop(0), <-ended, <-ended); err != nil {
			t.Error(err)
		}
	})
	by := func(network, address string) net.Conn {
		conn, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	return map[string]func() net.Conn{
		"plain":  func() net.Conn { return by("tcp", tcp.Addr().String()) },
		"socket": func() net.Conn { return by("unix", path) },
		"TLS": func() net.Conn {
			conn := tls.Client(by("tcp", tcp.Addr().String()), &tls.Config{InsecureSkipVerify: true})
			if err := conn.HandshakeContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			return conn
		},
	}
}

// A client may open a connection that it needs later, as Go's does. It is there when its first request
// comes, and when the next one does.
func TestTheFirstRequestOfAConnectionMayComeLate(t *testing.T) {
	for name, open := range waiting(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := open()
			for _, which := range []string{"first", "second"} {
				<-time.After(3 * header) // nothing happens, that is the point
				if _, err := ask(conn, "/"); err != nil {
					t.Errorf("%s request: %v", which, err)
				}
			}
		})
	}
}

// From its first byte on, a header has to come within its time, and so does a handshake.
func TestAHeaderThatHasBegunHasToEnd(t *testing.T) {
	opens := waiting(t)
	opens["handshake"] = opens["plain"]
	begun := map[string]string{"handshake": "\x16\x03\x01"}
	for name, open := range opens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := open()
			begins := begun[name]
			if begins == "" {
				begins = "GET / HTTP/1.1\r\nHost: x\r\n"
			}
			if _, err := io.WriteString(conn, begins); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := conn.SetReadDeadline(began.Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(conn); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("it is open after %s: %q, %v", time.Since(began), got, err)
			}
		})
	}
}

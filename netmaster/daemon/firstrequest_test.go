package daemon

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/rootsocket"
)

// header is the time for a header in these tests.
const header = 300 * time.Millisecond

// waiting serves with and without TLS and on the socket, with a short time for headers and bodies, and returns a way to
// open each.
func waiting(t *testing.T) map[string]func() net.Conn {
	t.Helper()
	p, tcp := founded(t)
	_, without := founded(t)
	both, beside := founded(t)
	path := filepath.Join(t.TempDir(), "socket")
	socket, err := rootsocket.Listen(path, testkit.Quiet())
	if err != nil {
		t.Fatal(err)
	}
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_, _ = w.Write(body)
	})
	s := newServer(echo, p, nil, testkit.Quiet())
	s.http.ReadHeaderTimeout, s.http.ReadTimeout = header, 2*header
	ended := make(chan error, 4)
	go func() {
		ended <- s.serve(encrypting{Listener: tcp, config: p.server(), hasCertificate: p.hasAuthorities, handshakes: newHandshakes(testkit.Quiet())})
	}()
	go func() {
		ended <- s.serve(encrypting{Listener: beside, config: both.server(), hasCertificate: both.hasAuthorities, servesPlain: func() bool { return true },
			handshakes: newHandshakes(testkit.Quiet())})
	}()
	go func() { ended <- s.serve(encrypting{Listener: without}) }()
	go func() { ended <- s.serve(encrypting{Listener: socket}) }()
	t.Cleanup(func() {
		if err := errors.Join(s.stop(0), <-ended, <-ended, <-ended, <-ended); err != nil {
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
		"plain":      func() net.Conn { return by("tcp", without.Addr().String()) },
		"beside TLS": func() net.Conn { return by("tcp", beside.Addr().String()) },
		"socket":     func() net.Conn { return by("unix", path) },
		"before TLS": func() net.Conn { return by("tcp", tcp.Addr().String()) },
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
// comes, with all of its body, and when the next one does.
func TestTheFirstRequestOfAConnectionMayComeLate(t *testing.T) {
	body := strings.Repeat("x", 64<<10)
	opens := waiting(t)
	delete(opens, "before TLS")
	for name, open := range opens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := open()
			if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			answers := bufio.NewReader(conn)
			for _, which := range []string{"first", "second"} {
				<-time.After(3 * header) // nothing happens, that is the point
				if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", len(body)); err != nil {
					t.Fatalf("%s request: %v", which, err)
				}
				<-time.After(header / 10) // so that the body comes after the header
				if _, err := io.WriteString(conn, body); err != nil {
					t.Fatalf("%s request: %v", which, err)
				}
				resp, err := http.ReadResponse(answers, nil)
				if err != nil {
					t.Fatalf("%s request: %v", which, err)
				}
				if got, err := io.ReadAll(resp.Body); err != nil || string(got) != body {
					t.Errorf("%s request: %s, %d bytes of %d, %v", which, resp.Status, len(got), len(body), err)
				}
			}
		})
	}
}

// From its first byte on, a header has to come within its time, and so does a handshake, which has to begin as soon.
func TestAHeaderThatHasBegunHasToEnd(t *testing.T) {
	opens := waiting(t)
	opens["handshake"], opens["nothing"] = opens["before TLS"], opens["before TLS"]
	opens["handshake where plain is served"] = opens["beside TLS"]
	begun := map[string]string{"handshake": "\x16\x03\x01", "handshake where plain is served": "\x16\x03\x01", "nothing": ""}
	for name, open := range opens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := open()
			begins, other := begun[name]
			if !other {
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

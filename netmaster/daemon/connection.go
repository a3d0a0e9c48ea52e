package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// TLS and plain HTTP are served on one port: the first byte of a connection distinguishes them. It is read when
// the server first reads, not when the connection is accepted. So the same limits of number apply to
// connections of both kinds, also to those that send nothing. A handshake in progress does not delay other connections.
//
// A connection without a request yet may be silent as long as one after an answer: clients open some before they need
// them, as Go's does for a request that then gets another connection. net/http limits the time to the end of the
// first header from the beginning; then the connection would end just as its client sends a request on it, and a
// POST would be lost, which no client repeats. So the time for a header begins with its first byte, and the
// handshake has the same time of its own. Where only TLS is of use, the first byte has to come as soon: clients begin
// their handshake at once. Where plain HTTP is served as well, a silent connection may be a plain one.

// tlsHandshake is the first byte of a TLS connection; no HTTP request begins with it.
const tlsHandshake = 0x16

// plainRefused is the answer to plain HTTP where only TLS is served.
const plainRefused = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nthis address is served over https only\n"

// encrypting is a listener whose connections may be TLS. While hasCertificate returns false, as there is no
// certificate, all are plain; if only TLS is served, they fail.
type encrypting struct {
	net.Listener
	config         *tls.Config
	hasCertificate func() bool    // nil: never, as on the socket
	gate           func(net.Conn) // takes over connections of agents
	tlsOnly        bool           // plain connections are refused
	servesPlain    func() bool    // whether requests on plain connections are served beside TLS; nil: never
	handshakes     *handshakes
}

// Accept implements net.Listener.
func (e encrypting) Accept() (net.Conn, error) {
	conn, err := e.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &connection{Conn: conn, config: e.config, gate: e.gate, handshakes: e.handshakes, tlsOnly: e.tlsOnly,
		plainOnly: !e.tlsOnly && (e.hasCertificate == nil || !e.hasCertificate())}
	c.mayBePlain = c.plainOnly || !e.tlsOnly && e.servesPlain != nil && e.servesPlain()
	return c, nil
}

// connection is a connection whose first byte shows whether it is TLS.
type connection struct {
	net.Conn   // as it was accepted
	config     *tls.Config
	gate       func(net.Conn)
	tlsOnly    bool // it has to be TLS
	plainOnly  bool // it is not TLS, whatever its first byte is
	mayBePlain bool // it is served if it is plain
	handshakes *handshakes
	// idle is how long it may be silent before its first request; header is the time to the end of that
	// request's header, and for a handshake. 0: no limit.
	idle, header time.Duration
	first        sync.Once
	failed       error
	asked        atomic.Bool                         // the first byte of its first request was read
	spoken       atomic.Pointer[net.Conn]            // used for reads and writes; nil: before the first byte
	secured      atomic.Pointer[tls.ConnectionState] // what the handshake has agreed on; nil: it is plain, or not done
	identity     atomic.Pointer[cachedIdentity]      // by the client's certificate; nil: not verified yet
	given        atomic.Bool                         // to the gate: the server does not use it any more
}

// Read implements net.Conn. The first call does the handshake.
func (c *connection) Read(p []byte) (int, error) {
	if c.first.Do(c.begin); c.failed != nil {
		return 0, c.failed
	}
	n, err := c.speaking().Read(p)
	if n > 0 && c.asked.CompareAndSwap(false, true) {
		err = cmp.Or(err, c.within(c.header))
	}
	return n, err
}

// within limits the time for reading, from now on; 0: it has no limit.
func (c *connection) within(limit time.Duration) error {
	if limit == 0 {
		return c.Conn.SetReadDeadline(time.Time{})
	}
	return c.Conn.SetReadDeadline(time.Now().Add(limit))
}

func (c *connection) begin() {
	var first [1]byte
	soon := c.header
	if c.mayBePlain {
		soon = c.idle
	}
	if c.failed = c.within(soon); c.failed != nil {
		return
	}
	n, err := c.Conn.Read(first[:])
	if n == 0 {
		c.failed = err
		return
	}
	if c.tlsOnly && first[0] != tlsHandshake {
		_, _ = c.Conn.Write([]byte(plainRefused)) // it is closed in any case
		c.failed = errors.New("a plain connection where TLS is wanted")
		return
	}
	var spoken net.Conn = &replayed{Conn: c.Conn, first: first[:]}
	if first[0] == tlsHandshake && !c.plainOnly {
		if c.failed = c.within(c.header); c.failed != nil {
			return
		}
		if c.failed = c.handshakes.wait(c.Conn); c.failed != nil {
			return
		}
		secured := tls.Server(spoken, c.config)
		if c.failed = secured.HandshakeContext(context.Background()); c.failed != nil {
			return
		}
		state := secured.ConnectionState() // final: a client cannot negotiate again
		if state.NegotiatedProtocol == gateProtocol {
			c.give(secured)
			return
		}
		c.secured.Store(&state)
		spoken = secured
		c.failed = c.within(c.idle)
	}
	c.spoken.Store(&spoken)
}

// ALPN protocols. Agents offer gateProtocol only; clients of REST also offer restProtocol, which is preferred.
const (
	gateProtocol = "h2"
	restProtocol = "http/1.1"
)

// give hands the connection over to the gate; for the server it has ended.
func (c *connection) give(secured *tls.Conn) {
	c.given.Store(true)
	if c.failed = secured.SetDeadline(time.Time{}); c.failed == nil {
		c.failed = io.EOF
		c.gate(secured)
	}
}

// SetDeadline implements net.Conn.
func (c *connection) SetDeadline(t time.Time) error { return c.unlessGiven(c.Conn.SetDeadline, t) }

// SetReadDeadline implements net.Conn.
func (c *connection) SetReadDeadline(t time.Time) error {
	return c.unlessGiven(c.Conn.SetReadDeadline, t)
}

// SetWriteDeadline implements net.Conn.
func (c *connection) SetWriteDeadline(t time.Time) error {
	return c.unlessGiven(c.Conn.SetWriteDeadline, t)
}

func (c *connection) unlessGiven(set func(time.Time) error, t time.Time) error {
	if c.given.Load() {
		return nil
	}
	return set(t)
}

func (c *connection) speaking() net.Conn {
	if spoken := c.spoken.Load(); spoken != nil {
		return *spoken
	}
	return c.Conn
}

// Write implements net.Conn.
func (c *connection) Write(p []byte) (int, error) { return c.speaking().Write(p) }

// Close implements net.Conn. With TLS it sends close_notify.
func (c *connection) Close() error {
	if c.given.Load() {
		return nil
	}
	return c.speaking().Close()
}

// CloseWrite signals that nothing more is sent, as the server does before it closes a connection whose client may
// still send.
func (c *connection) CloseWrite() error {
	if half, ok := c.speaking().(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// replayed is a connection below TLS. It returns the first byte again.
type replayed struct {
	net.Conn
	first []byte // what is left of it
}

// goodbye is how long close_notify may take to a client that does not read. crypto/tls would wait for five seconds, each time
// that the shedder closes such a connection to accept another one.
const goodbye = 20 * time.Millisecond

// SetWriteDeadline implements net.Conn. crypto/tls calls it for close_notify only; the server and the gate set deadlines otherwise.
func (r *replayed) SetWriteDeadline(t time.Time) error {
	if last := time.Now().Add(goodbye); t.IsZero() || t.After(last) {
		t = last
	}
	return r.Conn.SetWriteDeadline(t)
}

// Read implements net.Conn.
func (r *replayed) Read(p []byte) (int, error) {
	if len(r.first) == 0 {
		return r.Conn.Read(p)
	}
	n := copy(p, r.first)
	r.first = r.first[n:]
	return n, nil
}

// CloseWrite implements the half of net.TCPConn.
func (r *replayed) CloseWrite() error {
	if half, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

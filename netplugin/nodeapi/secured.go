package nodeapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
	"github.com/contiv/netplugin/utils/rootsocket"
)

// Membership is the node's membership in a cluster with certificates.
type Membership interface {
	// Server returns the node's TLS configuration as a server; nil until it has joined.
	Server() *tls.Config
	// Verify returns the identity in the cluster that a certificate belongs to.
	Verify(chain []*x509.Certificate, now time.Time) (identity.Identity, error)
}

// secured is a listener that uses TLS once the node has joined, except with clients on the node itself.
type secured struct {
	net.Listener
	node       Membership // nil: all connections are plain
	handshakes *ratelimit.Handshakes
}

// Accept implements net.Listener. The server does the handshake, within its time limits.
func (s secured) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil || s.node == nil || isLoopback(conn.RemoteAddr().String()) {
		return conn, err
	}
	if config := s.node.Server(); config != nil {
		return tls.Server(&inTurn{Conn: conn, handshakes: s.handshakes}, config), nil
	}
	return conn, nil
}

// inTurn is a connection whose TLS handshake waits for its turn before anything is computed.
type inTurn struct {
	net.Conn
	handshakes *ratelimit.Handshakes
	counted    bool // set by the first read, which precedes all others
}

// Read implements net.Conn.
func (c *inTurn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.counted || n == 0 {
		return n, err
	}
	c.counted = true
	source, parseErr := netip.ParseAddrPort(c.RemoteAddr().String())
	if parseErr != nil {
		return 0, parseErr
	}
	wait, refused := c.handshakes.Due(source.Addr().Unmap(), time.Now())
	if refused != nil {
		return 0, refused
	}
	retry.Pause(context.Background(), wait)
	return n, err
}

// DefaultSocket is the unix socket for root on the machine.
const DefaultSocket = "/run/contiv/netplugin.sock"

// connKey is the context key of a request's connection.
type connKey struct{}

func withConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// isRootAtSocket reports whether the client is root, at the unix socket.
func isRootAtSocket(ctx context.Context) bool {
	_, local := ctx.Value(connKey{}).(*rootsocket.Conn)
	return local
}

// requireRole admits root at the socket and netmasters over TLS to all paths, and others to liveness and
// readiness only. Before the node has joined, clients on the node itself are admitted to all paths. A
// connection keeps the role that it had when it was opened.
func (h handlers) requireRole(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.checkClient(r); err != nil {
			h.fail(w, fault.New(fault.KindOf(err), "%s %s: %w; ask netmaster%s", r.Method, r.URL.Path, err, h.socketHint()))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// socketHint names the socket in an error, if there is one.
func (h handlers) socketHint() string {
	if h.Socket == "" {
		return ""
	}
	return ", or as root of the node at " + h.Socket
}

// checkClient returns why a request is refused; nil: it is admitted.
func (h handlers) checkClient(r *http.Request) error {
	switch {
	case h.Membership == nil, r.URL.Path == "/healthz", r.URL.Path == "/readyz", isRootAtSocket(r.Context()):
		return nil
	case r.TLS == nil && isLoopback(r.RemoteAddr) && h.Membership.Server() == nil:
		return nil
	case r.TLS == nil:
		return fault.New(fault.Unauthenticated, "over a plain connection a node that has joined the cluster tells how it is, and nothing else")
	}
	who, err := h.Membership.Verify(r.TLS.PeerCertificates, time.Now())
	if err == nil && who.Kind != identity.Master {
		err = fault.New(fault.Denied, "%s is no netmaster", who)
	}
	return err
}

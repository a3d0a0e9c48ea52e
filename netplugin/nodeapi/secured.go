package nodeapi

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/utils/fault"
)

// Membership is that of the node in a cluster that knows who is who.
type Membership interface {
	// Server is how the node serves over TLS; nil until it has joined.
	Server() *tls.Config
	// Verify tells who of the cluster a certificate belongs to.
	Verify(chain []*x509.Certificate, now time.Time) (identity.Identity, error)
}

// secured is a listener that, once the node has joined, speaks TLS with all who are not on
// the node itself.
type secured struct {
	net.Listener
	node Membership // nil: everything is plain
}

// Accept implements net.Listener. The handshake is done by the server, in its time limits.
func (s secured) Accept() (net.Conn, error) {
	conn, err := s.Listener.Accept()
	if err != nil || s.node == nil || isLoopback(conn.RemoteAddr().String()) {
		return conn, err
	}
	if config := s.node.Server(); config != nil {
		return tls.Server(conn, config), nil
	}
	return conn, nil
}

// entitled lets netmasters ask for everything, over TLS, and all others whether the node is
// alive and ready. Who is on the node itself may ask as ever. A connection that was made before the node had joined is as one of
// nobody, and stays so: it can be kept for as long as its owner likes.
func (h handlers) entitled(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := h.mayAsk(r); err != nil {
			h.fail(w, fault.New(fault.KindOf(err), "%s %s: %w; ask netmaster, or the node itself at 127.0.0.1", r.Method, r.URL.Path, err))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// mayAsk tells why a request is not answered.
func (h handlers) mayAsk(r *http.Request) error {
	if h.Membership == nil || r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
		return nil
	}
	if r.TLS == nil {
		if isLoopback(r.RemoteAddr) {
			return nil
		}
		return fault.New(fault.Unauthenticated, "the connection is plain, as it was made before the node had joined the cluster")
	}
	who, err := h.Membership.Verify(r.TLS.PeerCertificates, time.Now())
	if err == nil && who.Kind != identity.Master {
		err = fault.New(fault.Denied, "%s is no netmaster", who)
	}
	return err
}

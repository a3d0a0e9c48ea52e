package daemon

import (
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/rootsocket"
)

// identityHeader is the header in which a netmaster that forwards a request sends the client's identity, with
// the hash of its key if there is one. It is trusted only from netmasters that are authenticated by
// certificate, as is the client's address in another header; both are removed from all other requests.
const identityHeader = "Contiv-Identity"

// verifier verifies certificates and returns their identity.
type verifier interface {
	Identify(chain []*x509.Certificate, now time.Time) (cachedIdentity, error)
}

// identify puts the client's identity into the context of a request: root, by the socket; that of a
// certificate; or none. An invalid certificate is refused with the reason, also where none is needed: a client
// that sends one expects its identity to count. Then the connection is closed, because a client sends its
// certificate only at the beginning, and may have a new one by now.
func identify(next http.Handler, clients verifier, refusals *auth.EarlyRefusals) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passedOn, plain := r.Header.Get(identityHeader), r.Header.Get(plainHeader)
		r.Header.Del(identityHeader)
		r.Header.Del(plainHeader)
		client := forwardedFor(r)
		who, err := identityOf(r, clients)
		if err == nil && who.Kind == identity.Master && passedOn != "" {
			r = rest.ForwardedBy(r, who.Name)
			if who, err = parseIdentity(passedOn); client.IsValid() {
				r.RemoteAddr = netip.AddrPortFrom(client, 0).String()
			}
			if plain != "" {
				r = rest.Plain(r)
			}
		}
		if err != nil {
			rejectCertificate(w, r, err, refusals)
			return
		}
		next.ServeHTTP(w, r.WithContext(identity.With(r.Context(), who)))
	})
}

// rejectCertificate answers a client whose certificate is invalid, or cannot be verified yet.
func rejectCertificate(w http.ResponseWriter, r *http.Request, err error, refusals *auth.EarlyRefusals) {
	w.Header().Set("Connection", "close")
	if fault.Is(err, fault.Unavailable) {
		w.Header().Set("Retry-After", "1")
		rest.WriteStatus(w, r, http.StatusServiceUnavailable, fault.New(fault.Unavailable, "%s %s: %w", r.Method, r.URL.Path, err))
		return
	}
	refusals.Add(r, "certificate", http.StatusUnauthorized, err)
	rest.WriteStatus(w, r, http.StatusUnauthorized, fault.New(fault.Unauthenticated, "%s %s: %w", r.Method, r.URL.Path, err))
}

// forwardedFor removes the headers of a request that contain the client's address, and returns that address, if
// there is one. A netmaster that forwards a request sets it.
func forwardedFor(r *http.Request) netip.Addr {
	addr, _ := netip.ParseAddr(r.Header.Get("X-Forwarded-For"))
	for name := range r.Header {
		if name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded-") {
			r.Header.Del(name)
		}
	}
	return addr
}

// identityOf returns the identity of the connection's client. It records in the request that the connection is encrypted.
func identityOf(r *http.Request, clients verifier) (identity.Identity, error) {
	if byRoot(r) {
		return identity.Identity{Kind: identity.Root}, nil
	}
	secured, ok := r.Context().Value(connKey{}).(*connection)
	if !ok {
		return identity.Identity{}, nil
	}
	if r.TLS = secured.secured.Load(); r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return identity.Identity{}, nil
	}
	return secured.client(clients, time.Now().Round(0)) // of the wall clock, which may go back
}

// byRoot reports whether a request comes from root of this machine, on the socket.
func byRoot(r *http.Request) bool {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	if c, ok := conn.(*connection); ok {
		conn = c.Conn
	}
	return rootsocket.ByRoot(conn)
}

// formatIdentity returns the value of identityHeader for an identity.
func formatIdentity(who identity.Identity) string {
	parts := []string{who.String()}
	if who.KeyHash != "" {
		parts = append(parts, who.KeyHash)
	}
	if who.Issued {
		parts = append(parts, issuedMark)
	}
	return strings.Join(parts, " ")
}

// issuedMark marks a forwarded identity as Issued.
const issuedMark = "issued"

func parseIdentity(text string) (identity.Identity, error) {
	name, rest, _ := strings.Cut(text, " ")
	who, err := identity.Parse(name)
	var mark string
	who.KeyHash, mark, _ = strings.Cut(rest, " ")
	who.Issued = mark == issuedMark
	return who, err
}

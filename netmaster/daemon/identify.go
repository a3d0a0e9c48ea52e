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

// identityHeader is where a netmaster that passes a request on says who it comes from: an
// identity, and the hash of its key if there is one. It is believed of netmasters that
// show their certificate, as is the address that they say it comes from; both are taken
// from the requests of all others.
const identityHeader = "Contiv-Identity"

// verifier finds out who a certificate belongs to.
type verifier interface {
	Identify(chain []*x509.Certificate, now time.Time) (cachedIdentity, error)
}

// identify notes who a request comes from: root, by the socket, who shows a certificate,
// or nobody. A certificate that does not count is refused with the reason, whatever the
// request: who shows one believes to be somebody. The connection ends then, for a
// certificate is shown at its beginning only, and the client may have another one by now.
func identify(next http.Handler, clients verifier, refusals *auth.EarlyRefusals) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		passedOn, plain := r.Header.Get(identityHeader), r.Header.Get(plainHeader)
		r.Header.Del(identityHeader)
		r.Header.Del(plainHeader)
		client := forwardedFor(r)
		who, err := whoAsks(r, clients)
		if err == nil && who.Kind == identity.Master && passedOn != "" {
			if who, err = readPassedOn(passedOn); client.IsValid() {
				r.RemoteAddr = netip.AddrPortFrom(client, 0).String()
			}
			if plain != "" {
				r = rest.Plain(r)
			}
		}
		if err != nil {
			doubt(w, r, err, refusals)
			return
		}
		next.ServeHTTP(w, r.WithContext(identity.With(r.Context(), who)))
	})
}

// doubt answers who shows a certificate that does not count, or of which that is not known yet.
func doubt(w http.ResponseWriter, r *http.Request, err error, refusals *auth.EarlyRefusals) {
	w.Header().Set("Connection", "close")
	if fault.Is(err, fault.Unavailable) {
		w.Header().Set("Retry-After", "1")
		rest.WriteStatus(w, r, http.StatusServiceUnavailable, fault.New(fault.Unavailable, "%s %s: %w", r.Method, r.URL.Path, err))
		return
	}
	refusals.Add(r, "certificate", http.StatusUnauthorized, err)
	rest.WriteStatus(w, r, http.StatusUnauthorized, fault.New(fault.Unauthenticated, "%s %s: %w", r.Method, r.URL.Path, err))
}

// forwardedFor takes from a request what it says of where it comes from, and returns the
// address; the zero address if it says none. A netmaster that passes a request on says one.
func forwardedFor(r *http.Request) netip.Addr {
	addr, _ := netip.ParseAddr(r.Header.Get("X-Forwarded-For"))
	for name := range r.Header {
		if name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded-") {
			r.Header.Del(name)
		}
	}
	return addr
}

// whoAsks is who is at the other end of the connection. It notes in the request that the
// connection is encrypted.
func whoAsks(r *http.Request, clients verifier) (identity.Identity, error) {
	conn, _ := r.Context().Value(connKey{}).(net.Conn)
	if rootsocket.ByRoot(conn) {
		return identity.Identity{Kind: identity.Root}, nil
	}
	secured, ok := conn.(*connection)
	if !ok {
		return identity.Identity{}, nil
	}
	if r.TLS = secured.secured.Load(); r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return identity.Identity{}, nil
	}
	return secured.client(clients, time.Now().Round(0)) // of the wall clock, which may go back
}

// passOn writes an identity for the leader.
func passOn(who identity.Identity) string {
	parts := []string{who.String()}
	if who.KeyHash != "" {
		parts = append(parts, who.KeyHash)
	}
	if who.Issued {
		parts = append(parts, issuedMark)
	}
	return strings.Join(parts, " ")
}

// issuedMark says of an identity that it is passed on with Issued.
const issuedMark = "issued"

func readPassedOn(text string) (identity.Identity, error) {
	name, rest, _ := strings.Cut(text, " ")
	who, err := identity.Parse(name)
	var mark string
	who.KeyHash, mark, _ = strings.Cut(rest, " ")
	who.Issued = mark == issuedMark
	return who, err
}

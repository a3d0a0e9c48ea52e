package daemon

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/pki"
)

// A certificate is shown once, when a connection begins. Who it belongs to is found at the
// first request, and again only when the answer can be another one: when this netmaster
// trusts others than before, or when one of the certificates has begun or ended since. To
// verify a signature takes 0.1 ms, which is a third of what an endpoint costs.
//
// What the one who was found may do is no part of this. It is asked for each request, in
// the state that the request sees (package access).

// cachedIdentity is who the certificate of a connection belongs to.
type cachedIdentity struct {
	who   identity.Identity
	holds func(now time.Time) bool // false: who it is has to be found again
}

// client is who has shown the certificate of the connection.
func (c *connection) client(by verifier, now time.Time) (identity.Identity, error) {
	if known := c.identity.Load(); known != nil && known.holds(now) {
		return known.who, nil
	}
	chain := c.secured.Load().PeerCertificates
	found, err := by.Identify(chain, now)
	if err != nil {
		return identity.Identity{}, err
	}
	if before := c.identity.Swap(&found); before == nil && found.who.Kind == identity.Master {
		c.handshakes.know(c.Conn, found.who, chain[0])
	}
	return found.who, nil
}

// Identify is Verify, and for how long its answer holds.
func (p *certificates) Identify(chain []*x509.Certificate, now time.Time) (cachedIdentity, error) {
	// What is trusted is read before anything is verified: whatever replaces it meanwhile ends it.
	ours, brought := p.current.Load(), p.own.Edition()
	who, err := p.Verify(chain, now)
	if err != nil {
		return cachedIdentity{}, err
	}
	all := slices.Concat(chain, brought.Authorities())
	if ours != nil {
		all = append(all, ours.authorities[pki.Client].Bundle()...)
	}
	until := nextTurn(now, all)
	return cachedIdentity{who, func(at time.Time) bool {
		return p.current.Load() == ours && p.own.Edition() == brought && !at.Before(now) && at.Before(until)
	}}, nil
}

// nextTurn is when the first of some certificates begins or ends, of which the first is good
// now. Until then time changes nothing of what is verified by them.
func nextTurn(now time.Time, certs []*x509.Certificate) time.Time {
	next := certs[0].NotAfter
	for _, c := range certs {
		for _, turn := range []time.Time{c.NotBefore, c.NotAfter} {
			if turn.After(now) && turn.Before(next) {
				next = turn
			}
		}
	}
	return next
}

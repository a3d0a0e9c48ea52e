package daemon

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/pki"
)

// A client sends its certificate once, when a connection begins. It is verified at the first request, and again only
// when the result may differ: when the CAs that this netmaster trusts have changed, or when one of the certificates
// has become valid or has expired. Verifying a signature takes 0.1 ms, a third of the cost of creating an endpoint.
//
// Rights are not cached: they are read for each request, in the state that the request sees (package access).

// cachedIdentity is the identity in the certificate of a connection.
type cachedIdentity struct {
	who   identity.Identity
	holds func(now time.Time) bool // false: the identity has to be verified again
}

// client returns the identity of the connection's client.
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
		c.handshakes.noteNetmaster(c.Conn, found.who, chain[0])
	}
	return found.who, nil
}

// Identify is Verify, and also returns the condition under which the result stays valid.
func (p *certificates) Identify(chain []*x509.Certificate, now time.Time) (cachedIdentity, error) {
	// Trusted CAs are read before anything is verified: if they are replaced meanwhile, the result is not valid any
	// more.
	ours, brought := p.current.Load(), p.own.Edition()
	who, err := p.Verify(chain, now)
	if err != nil {
		return cachedIdentity{}, err
	}
	all := slices.Concat(chain, brought.Authorities())
	if ours != nil {
		all = append(all, ours.authorities[pki.Client].Bundle()...)
	}
	until := nextValidityChange(now, all)
	return cachedIdentity{who, func(at time.Time) bool {
		return p.current.Load() == ours && p.own.Edition() == brought && !at.Before(now) && at.Before(until)
	}}, nil
}

// nextValidityChange returns the next time at which one of some certificates becomes valid or expires; the
// first one is valid now. Until then the time does not change the result of verifying them.
func nextValidityChange(now time.Time, certs []*x509.Certificate) time.Time {
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

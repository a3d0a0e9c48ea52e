package daemon

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/suites"
)

// TLS configurations, and the verification of clients.

// Verify returns the identity of a client by its certificate.
func (c *certificates) Verify(chain []*x509.Certificate, now time.Time) (identity.Identity, error) {
	all := c.authorities()
	switch {
	case all == nil && !c.own.Trusts():
		return identity.Identity{}, fault.New(fault.Unauthenticated, "certificate: this netmaster knows no authority")
	case all == nil:
		return c.own.Verify("", chain, now)
	}
	trust := pki.Trust{Cluster: all.Cluster(), Authorities: all[pki.Client].Bundle(), Use: x509.ExtKeyUsageClientAuth}
	who, err := trust.Verify(chain, now)
	if err != nil && c.own.Trusts() {
		// What is not of the cluster's own CAs is judged, and refused, by what the operator's say.
		if user, why := c.own.Verify(all.Cluster(), chain, now); why == nil || errors.Is(err, pki.ErrForeign) {
			return user, why
		}
	}
	who.Issued = err == nil && who.Kind == identity.User
	return who, err
}

// server returns the TLS configuration for clients. Their certificates are requested in the handshake and
// verified only with their first request (identify), so that the answer can say why one is refused. Agents use
// TLS 1.3 with the gate, like all connections between daemons.
func (c *certificates) server() *tls.Config {
	clients := &tls.Config{
		MinVersion: tls.VersionTLS12, CipherSuites: suites.TLS12(), NextProtos: []string{restProtocol, gateProtocol}, ClientAuth: tls.RequestClientCert,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if own := c.own.For(hello.ServerName); own != nil {
				return own, nil
			}
			if h := c.current.Load(); h != nil {
				return h.server, nil
			}
			if own := c.own.Shown(); own != nil {
				return own, nil
			}
			return nil, fault.New(fault.Unavailable, "no certificate yet")
		},
	}
	agents := clients.Clone()
	agents.MinVersion = tls.VersionTLS13
	clients.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.SupportedProtos, gateProtocol) && !slices.Contains(hello.SupportedProtos, restProtocol) {
			return agents, nil
		}
		return nil, nil // as they are
	}
	return clients
}

// node returns the TLS configuration for connections to the agent of a host; nil while there are no CAs. A node
// is authenticated by its name, by the hash of the key to which the name is bound (at any address), and by the
// CA of clients. So no node can impersonate a netmaster, and no former node of a name the present one.
func (c *certificates) node(host, key string) *tls.Config {
	h := c.current.Load()
	if h == nil {
		return nil
	}
	trust := pki.Trust{Cluster: h.authorities.Cluster(), Authorities: h.authorities[pki.Client].Bundle(), Use: x509.ExtKeyUsageServerAuth}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*h.client}, NextProtos: []string{"http/1.1"},
		InsecureSkipVerify: true, // VerifyConnection replaces it
		VerifyConnection: func(state tls.ConnectionState) error {
			who, err := trust.Verify(state.PeerCertificates, time.Now())
			if err == nil && (who.Kind != identity.Node || who.Name != host) {
				err = fault.New(fault.Unauthenticated, "%s answers in the place of node %s", who, host)
			}
			if err == nil && who.KeyHash != key {
				err = fault.New(fault.Unauthenticated, "node %s answers with a key that its name does not belong to", host)
			}
			return err
		},
	}
}

// dialer returns the TLS configuration for connections to other netmasters; nil while there are no CAs. It is
// the same one until the certificate changes.
func (c *certificates) dialer() *tls.Config {
	if h := c.current.Load(); h != nil {
		return h.dialer
	}
	return nil
}

// dialing returns the TLS configuration for connections to servers with a certificate of a CA.
func dialing(by *pki.Authority, own *tls.Certificate, protocols ...string) *tls.Config {
	roots := x509.NewCertPool()
	for _, c := range by.Bundle() {
		roots.AddCert(c)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, Certificates: []tls.Certificate{*own}, NextProtos: protocols}
}

package pki

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/netip"
	"net/url"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/utils/fault"
)

// Leaf is the content of a certificate to sign.
type Leaf struct {
	Who       identity.Identity // a master, node or user
	Use       x509.ExtKeyUsage  // server or client
	Serves    bool              // a client certificate that is also for a server, as of nodes, which serve netmasters
	Key       crypto.PublicKey
	Names     []string      // of a server: the names that clients dial
	Addresses []netip.Addr  // and the addresses
	Life      time.Duration // 0: LeafLife
}

// signs returns why a CA cannot sign at a time.
func (a *Authority) signs(now time.Time) error {
	if c := a.Certificate; now.Before(c.NotBefore) || !now.Before(c.NotAfter) {
		return fault.New(fault.Conflict, "authority %s signs from %s to %s only, and the clock says %s", c.Subject.CommonName,
			c.NotBefore.Format(time.RFC3339), c.NotAfter.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}

// Sign returns a certificate. It is valid from some time ago, since clocks may differ, and for its lifetime, but
// not beyond that of the CA.
func (a *Authority) Sign(leaf Leaf, now time.Time) (*x509.Certificate, error) {
	end := now.Add(cmp.Or(leaf.Life, LeafLife))
	if end.After(a.Certificate.NotAfter) {
		end = a.Certificate.NotAfter
	}
	if err := a.signs(now); err != nil {
		return nil, err
	}
	begin := now.Add(-backdated)
	if begin.Before(a.Certificate.NotBefore) {
		begin = a.Certificate.NotBefore
	}
	number, err := serial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: number,
		Subject:      pkix.Name{Organization: []string{a.Cluster}, CommonName: leaf.Who.String()},
		NotBefore:    begin, NotAfter: end,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           leaf.uses(),
		BasicConstraintsValid: true,
		URIs:                  []*url.URL{leaf.Who.URI(a.Cluster)},
		DNSNames:              leaf.Names,
	}
	for _, addr := range leaf.Addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(addr.Unmap().AsSlice()))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, leaf.Key, a.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func (l Leaf) uses() []x509.ExtKeyUsage {
	if l.Serves && l.Use != x509.ExtKeyUsageServerAuth {
		return []x509.ExtKeyUsage{l.Use, x509.ExtKeyUsageServerAuth}
	}
	return []x509.ExtKeyUsage{l.Use}
}

// Request returns a certificate request for a key, which proves the possession of the key. The requester has no
// influence on the other content of the certificate.
func Request(key *ecdsa.PrivateKey) ([]byte, error) {
	return x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
}

// ReadRequest returns the key of a request. Errors are fault.Invalid.
func ReadRequest(der []byte) (*ecdsa.PublicKey, error) {
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fault.New(fault.Invalid, "certificate request: %w", err)
	}
	// First: any client may send a request, and a signature by another key may take a hundred times as long to verify.
	key, ok := request.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fault.New(fault.Invalid, "certificate request: want an ECDSA key on curve P-256")
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fault.New(fault.Invalid, "certificate request: it is not signed by its key: %w", err)
	}
	return key, nil
}

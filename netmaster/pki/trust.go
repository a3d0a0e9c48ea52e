package pki

import (
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/utils/fault"
)

// Limits of a client's certificates.
const (
	maxChain = 3       // certificates
	maxBytes = 8 << 10 // of each
)

// Trust defines which certificates are accepted for one use.
type Trust struct {
	Cluster     string
	Authorities []*x509.Certificate // more than one during a replacement
	Use         x509.ExtKeyUsage
}

// Verify returns the owner of the first certificate of a chain: it must be signed by one of the CAs, valid now,
// for this use, and name an identity of this cluster. Any other chain is a fault.Unauthenticated that names the
// problem.
func (t Trust) Verify(chain []*x509.Certificate, now time.Time) (identity.Identity, error) {
	if err := t.Signed(chain, now); err != nil {
		return identity.Identity{}, err
	}
	who, err := t.named(chain[0])
	if err != nil {
		return identity.Identity{}, fault.New(fault.Unauthenticated, "certificate: %w", err)
	}
	who.KeyHash = KeyHash(chain[0])
	return who, nil
}

// Signed is Verify without the name: it does not determine the owner.
func (t Trust) Signed(chain []*x509.Certificate, now time.Time) error {
	if err := t.signed(chain, now); err != nil {
		return fault.New(fault.Unauthenticated, "certificate: %w", err)
	}
	return nil
}

func (t Trust) signed(chain []*x509.Certificate, now time.Time) error {
	switch {
	case len(chain) == 0:
		return errors.New("none was shown")
	case len(chain) > maxChain:
		return fault.New(fault.Unauthenticated, "a chain of %d, at most %d are read", len(chain), maxChain)
	}
	for _, c := range chain {
		if len(c.Raw) > maxBytes {
			return fault.New(fault.Unauthenticated, "it has %d bytes, at most %d are read", len(c.Raw), maxBytes)
		}
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range t.Authorities {
		roots.AddCert(c)
	}
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	leaf := chain[0]
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{t.Use}}); err != nil {
		return plain(err, now)
	}
	switch {
	case leaf.IsCA:
		return errors.New("it is that of an authority")
	case !slices.Contains(leaf.ExtKeyUsage, t.Use): // valid for every use, hence not issued for this one
		return errors.New("it does not say that it is for this use")
	}
	return nil
}

// named returns the one identity of a certificate in this cluster.
func (t Trust) named(leaf *x509.Certificate) (identity.Identity, error) {
	if len(leaf.URIs) != 1 {
		return identity.Identity{}, fault.New(fault.Unauthenticated, "it has %d names of the form contiv://..., not one", len(leaf.URIs))
	}
	cluster, who, err := identity.ParseURI(leaf.URIs[0].String())
	if err != nil {
		return identity.Identity{}, err
	}
	if cluster != t.Cluster {
		return identity.Identity{}, fault.New(fault.Unauthenticated, "%s belongs to cluster %s, this is %s", who, cluster, t.Cluster)
	}
	return who, nil
}

// ErrForeign is in errors about a certificate that another CA has signed.
var ErrForeign = errors.New("it was not signed by an authority of this cluster")

// plain explains the most common reasons in plain words.
func plain(err error, now time.Time) error {
	var invalid x509.CertificateInvalidError
	var unknown x509.UnknownAuthorityError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && now.Before(invalid.Cert.NotBefore):
		return fault.New(fault.Unauthenticated, "it begins at %s, and it is %s", invalid.Cert.NotBefore.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fault.New(fault.Unauthenticated, "it expired at %s, and it is %s", invalid.Cert.NotAfter.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case errors.As(err, &unknown):
		return ErrForeign
	}
	return errors.New(strings.TrimPrefix(err.Error(), "x509: "))
}

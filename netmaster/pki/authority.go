// Package pki has the CAs of a cluster and the certificates that they sign.
//
// There are three CAs, so that no certificate is valid for a purpose other than its own:
//
//	api-ca      servers of REST: identifies a cluster for clients and join tokens
//	client-ca   clients of REST: netmasters, nodes, users
//	store-ca    members of the store and their clients: netmasters only
//
// Certificates are valid for a week and name their owner in a URI (see package identity). Verification checks the
// CA, the use and the name (Trust.Verify); the common name is for users and has no effect.
//
// The clock is an argument of everything here. Files are in dir.go, all other code is without I/O.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"strconv"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// Role is the purpose of the certificates of a CA.
type Role string

// The CAs of a cluster.
const (
	API    Role = "api-ca"
	Client Role = "client-ca"
	Store  Role = "store-ca"
)

// roles are all of them.
var roles = []Role{API, Client, Store}

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	// LeafLife is the lifetime of a certificate, unless its Leaf has another one.
	LeafLife = 7 * 24 * time.Hour
	// backdated is how far the clock of a verifier may be behind; it covers mistakes about time zones.
	backdated = 24 * time.Hour
)

// Authority is a CA of a cluster.
type Authority struct {
	Cluster     string // its id
	Certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	beside      []*Authority // also trusted, during a replacement; at most one, whose key may be nil
}

// Authorities are the CAs of one cluster.
type Authorities map[Role]*Authority

// NewCluster creates the CAs of a new cluster.
func NewCluster(now time.Time) (Authorities, error) {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return nil, err
	}
	all := Authorities{}
	for _, role := range roles {
		a, err := newAuthority(role, hex.EncodeToString(id), 1, now)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", role, err)
		}
		all[role] = a
	}
	return all, nil
}

// Cluster returns the id of the CAs' cluster.
func (a Authorities) Cluster() string { return a[API].Cluster }

// Hash returns an identifier of a set of CAs; empty: there are none.
func (a Authorities) Hash() string {
	if a == nil {
		return ""
	}
	return HashOf(a[API].Bundle())
}

// MaySign returns an error if any of the CAs cannot sign at a time: then a daemon cannot issue its own
// certificates.
func (a Authorities) MaySign(now time.Time) error {
	for _, one := range a {
		if err := one.signs(now); err != nil {
			return err
		}
	}
	return nil
}

// HashOf returns the Hash for a daemon that has only the bundle of the CA of servers.
func HashOf(certs []*x509.Certificate) string {
	h := sha256.New()
	for _, c := range certs {
		h.Write(c.Raw)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func newAuthority(role Role, cluster string, generation int, now time.Time) (*Authority, error) {
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	number, err := serial()
	if err != nil {
		return nil, err
	}
	name := pkix.Name{Organization: []string{cluster}, CommonName: "Contiv " + string(role)}
	if generation > 1 {
		name.SerialNumber = strconv.Itoa(generation)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber:          number,
		Subject:               name,
		NotBefore:             now.Add(-backdated),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}, &x509.Certificate{Subject: name}, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{Cluster: cluster, Certificate: cert, key: key}, err
}

// NewKey creates a key for a certificate.
func NewKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// serial returns a unique serial number.
func serial() (*big.Int, error) { return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) }

// KeyHash returns the SHA-256 of the public key of a certificate, in hexadecimal digits. That of the CA of servers
// identifies a cluster in join tokens.
func KeyHash(c *x509.Certificate) string { return hashOf(c.RawSubjectPublicKeyInfo) }

// PublicKeyHash returns the KeyHash of certificates for a key.
func PublicKeyHash(key *ecdsa.PublicKey) (string, error) {
	info, err := x509.MarshalPKIXPublicKey(key)
	return hashOf(info), err
}

func hashOf(publicKey []byte) string {
	sum := sha256.Sum256(publicKey)
	return hex.EncodeToString(sum[:])
}

// readAuthority combines the certificates of a bundle with their keys. The key of the first one is required. The
// id of the cluster is in the certificates.
func readAuthority(role Role, certificates, keys []byte) (*Authority, error) {
	certs, err := ParseCertificates(certificates)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", role, err)
	}
	known, err := parseKeys(keys)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", role, err)
	}
	var bundle []*Authority
	for _, c := range certs {
		if len(certs) > maxBundle || !c.IsCA || c.Subject.CommonName != "Contiv "+string(role) || len(c.Subject.Organization) != 1 ||
			c.Subject.Organization[0] != certs[0].Subject.Organization[0] {
			return nil, fault.New(fault.Invalid, "%s: not the certificate of that authority", role)
		}
		one := &Authority{Cluster: c.Subject.Organization[0], Certificate: c}
		for _, k := range known {
			if k.PublicKey.Equal(c.PublicKey) {
				one.key = k
			}
		}
		bundle = append(bundle, one)
	}
	first := bundle[0]
	if first.key == nil {
		return nil, fault.New(fault.Invalid, "%s: the key is not that of the certificate", role)
	}
	first.beside = bundle[1:]
	return first, nil
}

// maxBundle limits the number of CAs that are trusted at a time.
const maxBundle = 2

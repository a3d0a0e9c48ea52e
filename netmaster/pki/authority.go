// Package pki is the authorities of a cluster and the certificates they sign.
//
// There are three authorities, so that no certificate opens a door that it was not
// made for:
//
//	api-ca      servers of REST: what clients and join tokens know a cluster by
//	client-ca   clients of REST: netmasters, nodes, users
//	store-ca    members of the store and their clients: netmasters only
//
// Certificates live for a week and name who has them in a URI (see package
// identity). Whoever reads one demands the right authority, the right use and the
// right name (Trust.Verify); the common name is for people and decides nothing.
//
// The clock is an argument of everything here. Files are in dir.go, all else
// is without I/O.
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

// Role is what the certificates of an authority are for.
type Role string

// The authorities of a cluster.
const (
	API    Role = "api-ca"
	Client Role = "client-ca"
	Store  Role = "store-ca"
)

// roles are all of them.
var roles = []Role{API, Client, Store}

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	// LeafLife is how long a certificate is good for, unless its Leaf says otherwise.
	LeafLife = 7 * 24 * time.Hour
	// backdated is by how much the clock of who reads a certificate may be behind: a zone of time taken for another, too.
	backdated = 24 * time.Hour
)

// Authority signs certificates of a cluster.
type Authority struct {
	Cluster     string // its id
	Certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	beside      []*Authority // that are believed as well, while it is replaced; at most one, whose key is nil where it is not known
}

// Authorities are those of one cluster.
type Authorities map[Role]*Authority

// NewCluster makes the authorities of a new cluster.
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

// Cluster is the id of the cluster that the authorities belong to.
func (a Authorities) Cluster() string { return a[API].Cluster }

// Hash tells whether two know the same authorities; empty: there are none.
func (a Authorities) Hash() string {
	if a == nil {
		return ""
	}
	return HashOf(a[API].Bundle())
}

// MaySign says why the authorities, or one of them, do not sign at a time: who uses them cannot make certificates for itself then.
func (a Authorities) MaySign(now time.Time) error {
	for _, one := range a {
		if err := one.signs(now); err != nil {
			return err
		}
	}
	return nil
}

// HashOf is the Hash of who has nothing but the bundle of the authority of servers.
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

// NewKey makes a key for a certificate.
func NewKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// serial is a number that no other certificate has.
func serial() (*big.Int, error) { return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) }

// KeyHash is the SHA-256 of the public key of a certificate, in hexadecimal digits.
// The one of the authority of servers is what join tokens know a cluster by.
func KeyHash(c *x509.Certificate) string { return hashOf(c.RawSubjectPublicKeyInfo) }

// PublicKeyHash is the KeyHash that a certificate for a key has.
func PublicKeyHash(key *ecdsa.PublicKey) (string, error) {
	info, err := x509.MarshalPKIXPublicKey(key)
	return hashOf(info), err
}

func hashOf(publicKey []byte) string {
	sum := sha256.Sum256(publicKey)
	return hex.EncodeToString(sum[:])
}

// readAuthority joins the certificates of a bundle with their keys. That of the first one
// has to be there. The id of the cluster is in the certificates.
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

// maxBundle is how many are believed at a time.
const maxBundle = 2

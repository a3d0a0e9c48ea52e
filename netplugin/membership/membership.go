// Package membership lets a node join its cluster, and renews its membership.
//
// A node joins once, with a token. It creates a key and requests the CAs of the cluster from a netmaster without
// trusting the answer. It compares them with the pin in the token, so that no other server gets the token; or the
// CAs are configured, and a third party verifies the token. Then the node sends the token over a connection
// verified by these CAs, and gets a certificate for its key.
//
// Key, certificate and CAs are stored on disk. The certificate is renewed at half of its lifetime, and can be
// renewed for a long time after it has expired. A node that may not renew joins again if it has a token: with the
// same key, or with another one if that key was revoked. So does a node that is at an address that it has not joined
// with, as the cluster refuses its registration there. A key is on disk before its first use, so that a node that did
// not receive the answer requests again as the same node.
package membership

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/joining"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/utils/durable"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
	"github.com/contiv/netplugin/utils/suites"
)

// Config is the configuration of the node and its cluster.
type Config struct {
	Dir       string // of key and certificates
	TokenFile string // with the join token; not read while the node has joined and may renew; may be empty then
	// AuthoritiesFile has the CAs by which netmasters are verified for joining. With it, the token may be one without
	// a pin, which others verify; empty: the token has a pin.
	AuthoritiesFile string
	Host            string
	Addresses       []string
	Control         string // the one of Addresses that it is registered at; empty: renewals do not tell it
	VTEPs           []string
	// Masters returns the addresses of netmasters, host:port.
	Masters func(context.Context) ([]string, error)
	Log     *logrus.Entry
}

// Member is the node.
type Member struct {
	cfg  Config
	key  *ecdsa.PrivateKey
	held atomic.Pointer[held] // nil: not joined yet

	elsewhere bool // the node is not registered where it joined

	check time.Duration // interval of checks whether the certificate must be renewed

	refused func() error // why the cluster refuses the node's registration
	known   string       // the last refusal that was seen since the node joined
}

// held is the certificate and the CAs of a node that has joined.
type held struct {
	own   tls.Certificate
	roots *x509.CertPool // CAs of netmasters as servers
	tls   *tls.Config    // for connections to them
	known string         // hash of the CAs
	peers pki.Trust      // trust in netmasters as clients
}

// Names of the files.
const (
	keyFile         = "node.key"
	nextKeyFile     = "node.key.next"
	certificateFile = "node.crt"
	clientsFile     = "clients.crt"
	// AuthorityFile is written last: if it exists, the node has joined.
	AuthorityFile = "ca.crt"
)

// Open reads the node's files, and creates its key the first time. An error about a file says what to do without it.
func Open(cfg Config) (*Member, error) {
	if err := durable.MakeDir(cfg.Dir); err != nil {
		return nil, err
	}
	m := &Member{cfg: cfg, check: check, refused: func() error { return nil }}
	key, err := pki.OpenKey(m.path(keyFile))
	if err != nil {
		return nil, fmt.Errorf("%w (put it right, or move it and %s away: the node then joins with another key, with a token and after netctl node rekey)",
			err, m.path(AuthorityFile))
	}
	m.key = key
	if _, err := os.Stat(m.path(AuthorityFile)); os.IsNotExist(err) {
		return m, nil
	}
	if err := m.reopen(); err != nil {
		return nil, fmt.Errorf("%w (put it right, or move %s away: the node then joins once more, with a token)", err, m.path(AuthorityFile))
	}
	return m, nil
}

// reopen reads the files of a node that has joined.
func (m *Member) reopen() error {
	certificate, err := pki.ReadFile(m.path(certificateFile))
	if err != nil {
		return err
	}
	authorities, err := pki.ReadFile(m.path(AuthorityFile))
	if err != nil {
		return err
	}
	clients, err := pki.ReadFile(m.path(clientsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a node that joined with an earlier version has none until it renews its certificate
		return err
	}
	return m.use(certificate, authorities, clients)
}

func (m *Member) path(name string) string { return filepath.Join(m.cfg.Dir, name) }

// use presents a certificate and trusts CAs from now on: those of netmasters as servers, and, if there are some,
// of clients.
func (m *Member) use(certificate, authorities, clients []byte) error {
	certs, err := pki.ParseCertificates(certificate)
	if err != nil {
		return fmt.Errorf("%s: %w", m.path(certificateFile), err)
	}
	if !m.key.PublicKey.Equal(certs[0].PublicKey) {
		return fmt.Errorf("%s: it is not for the key in %s", m.path(certificateFile), m.path(keyFile))
	}
	trusted, err := pki.ParseCertificates(authorities)
	if err != nil {
		return fmt.Errorf("%s: %w", m.path(AuthorityFile), err)
	}
	roots := x509.NewCertPool()
	for _, c := range trusted {
		roots.AddCert(c)
	}
	now := &held{
		own: tls.Certificate{Certificate: [][]byte{certs[0].Raw}, PrivateKey: m.key, Leaf: certs[0]}, roots: roots,
		known: pki.HashOf(trusted),
	}
	if len(clients) > 0 {
		if now.peers, err = peersOf(certs[0], clients); err != nil {
			return fmt.Errorf("%s: %w", m.path(clientsFile), err)
		}
	}
	now.tls = &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, Certificates: []tls.Certificate{now.own}}
	m.held.Store(now)
	return nil
}

// peersOf returns the trust in the cluster of the node's own certificate.
func peersOf(own *x509.Certificate, clients []byte) (pki.Trust, error) {
	certs, err := pki.ParseCertificates(clients)
	if err != nil {
		return pki.Trust{}, err
	}
	if len(own.URIs) != 1 {
		return pki.Trust{}, fault.New(fault.Invalid, "the certificate of the node names nobody")
	}
	cluster, _, err := identity.ParseURI(own.URIs[0].String())
	return pki.Trust{Cluster: cluster, Authorities: certs, Use: x509.ExtKeyUsageClientAuth}, err
}

// Server returns the TLS configuration of the node's server; nil until it has joined. It requests the clients'
// certificates; Verify checks them.
func (m *Member) Server() *tls.Config {
	if m.held.Load() == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, CipherSuites: suites.TLS12(), NextProtos: []string{"http/1.1"}, ClientAuth: tls.RequestClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &m.held.Load().own, nil },
	}
}

// Verify returns the identity of a certificate of the cluster; an error if it is invalid.
func (m *Member) Verify(chain []*x509.Certificate, now time.Time) (identity.Identity, error) {
	return m.held.Load().peers.Verify(chain, now)
}

// Authorities returns the hash (pki.Authorities.Hash) of the CAs by which netmasters are verified; empty until the
// node has joined.
func (m *Member) Authorities() string {
	if h := m.held.Load(); h != nil {
		return h.known
	}
	return ""
}

// TLS returns the TLS configuration for connections to netmasters; nil until the node has joined. It is the same
// one until the certificate is renewed.
func (m *Member) TLS() *tls.Config {
	if h := m.held.Load(); h != nil {
		return h.tls
	}
	return nil
}

const (
	// check is the interval of checks whether the certificate must be renewed: in time, or because the CAs are
	// replaced.
	check = time.Minute
	// Pauses between attempts.
	firstPause, longestPause = time.Second, time.Minute
	longestPatience          = 5 * time.Minute
)

// Run joins, if necessary, and renews the certificate until ctx ends.
func (m *Member) Run(ctx context.Context) error {
	for pace := retry.NewPacer(firstPause, longestPause); m.held.Load() == nil && ctx.Err() == nil; {
		tried := m.tokenFile()
		if err := m.join(ctx); err != nil {
			m.cfg.Log.WithError(err).Error("the node has not joined the cluster, trying again")
			m.wait(ctx, pace, tried)
		}
	}
	var renewal pki.Renewal // at the start, whatever its age
	// A node that is elsewhere is not at a loss: it has its certificate, and may have no token that is good any more.
	pace, patient := retry.NewPacer(firstPause, longestPause), retry.NewPacer(firstPause, longestPatience)
	for ctx.Err() == nil {
		if left := renewal.Left(time.Now()); left > 0 {
			retry.Pause(ctx, min(m.check, left))
			if m.outdated(ctx) || m.isRefused() {
				renewal = pki.Renewal{}
			}
			continue
		}
		tried, next := m.tokenFile(), pace
		err := m.renew(ctx)
		if err = explainUnknownAuthority(err); fault.Is(err, fault.Denied) {
			err = m.joinAnew(ctx, m.explainRenamed(err))
		} else if err == nil && m.elsewhere && m.cfg.TokenFile != "" {
			err, next = m.joinElsewhere(ctx), patient
		}
		if err != nil {
			if ctx.Err() == nil {
				m.cfg.Log.WithError(err).Error("the membership of the node is not renewed, trying again")
			}
			m.wait(ctx, next, tried)
			continue
		}
		pace.Reset()
		if renewal = pki.RenewalOf(m.held.Load().own.Leaf, time.Now(), rand.Float64()); renewal.Left(time.Now()) == 0 {
			retry.Pause(ctx, m.check) // the netmaster's clock is ahead: nothing changes until one of the clocks is corrected
		}
	}
	return nil
}

// RenewAfter has the membership renewed after another refusal of the node's registration: the node may have been
// removed or rekeyed, and joins anew if it has a token. It is called before Run.
func (m *Member) RenewAfter(refused func() error) { m.refused = refused }

// isRefused reports a refusal that is another one than the last time.
func (m *Member) isRefused() bool {
	before := m.known
	m.known = ""
	if err := m.refused(); err != nil {
		m.known = err.Error()
	}
	return m.known != "" && m.known != before
}

// outdated reports whether the cluster has other CAs than the node. The node gets the present ones with a renewed
// certificate or, if it cannot verify any netmaster, by joining again.
func (m *Member) outdated(ctx context.Context) bool {
	masters, err := m.cfg.Masters(ctx)
	if err != nil {
		return false
	}
	known, err := joining.Known(ctx, masters, m.held.Load().roots)
	return fault.Is(explainUnknownAuthority(err), fault.Denied) || err == nil && known != m.Authorities()
}

// explainUnknownAuthority adds to the error that the CA of the netmasters' certificates is unknown to the node,
// and a remedy.
func explainUnknownAuthority(err error) error {
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		return err
	}
	return fault.New(fault.Denied, "the netmasters show certificates of authorities that this node does not know: those of the cluster were replaced while it was away "+
		"(netctl security rotate-ca), or others answer in its place: it needs a join token of now (%w)", err)
}

// explainRenamed adds to a refusal that the node has another name than when it joined, and a remedy: a name
// belongs to the key that joined with it.
func (m *Member) explainRenamed(refused error) error {
	leaf := m.held.Load().own.Leaf
	if len(leaf.URIs) != 1 {
		return refused
	}
	_, joined, err := identity.ParseURI(leaf.URIs[0].String())
	if err != nil || joined.Name == m.cfg.Host {
		return refused
	}
	return fmt.Errorf("the node has joined as %[1]s, and is called %[2]s now: start it with --host %[1]s again, or, if it is to be %[2]s, "+
		"give its tunnel end free (netctl node rm %[1]s), and it a join token (--join-token-file): %[3]w", joined.Name, m.cfg.Host, refused)
}

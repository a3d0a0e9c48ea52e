// Package membership is how a node joins its cluster, and stays a member.
//
// A node joins once, with a token. It makes a key and asks a netmaster for the authorities
// of the cluster without trusting the answer. It compares them with the pin in the token, so that
// nobody else gets the token; or it was given the authorities, and the token is one of
// somebody who vouches for the node. Then it sends the token over a connection that these
// authorities vouch for, and gets a certificate for its key.
//
// Key, certificate and authorities are kept on disk. The certificate is renewed at half of its
// life, and may be renewed for a long time after its end. A node that may not renew joins anew, if it
// is given a token: with the same key, or with another one if that key was revoked. A key is on disk before
// it is first used, so that a node that did not receive the answer asks again as the same node.
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
	"strings"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/joining"
	"github.com/contiv/netplugin/netmaster/jointoken"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/utils/durable"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
	"github.com/contiv/netplugin/utils/suites"
)

// Config is what a node knows of itself and its cluster.
type Config struct {
	Dir       string // where key and certificates are kept
	TokenFile string // of the join token; not read while the node has joined and may renew; may be empty then
	// AuthoritiesFile has what netmasters are believed by when the node joins. With it, the
	// token may be one that others vouch for, which has no pin; empty: it has one.
	AuthoritiesFile string
	Host            string
	Addresses       []string
	VTEPs           []string
	// Masters are the netmasters to ask, host:port.
	Masters func(context.Context) ([]string, error)
	Log     *logrus.Entry
}

// Member is the node.
type Member struct {
	cfg  Config
	key  *ecdsa.PrivateKey
	held atomic.Pointer[held] // nil: not joined yet

	check time.Duration // between looks at whether the certificate is to be renewed
}

// held is what a node that has joined shows and believes.
type held struct {
	own   tls.Certificate
	roots *x509.CertPool // of netmasters as servers
	tls   *tls.Config    // of connections to them
	known string         // hash of these
	peers pki.Trust      // in netmasters as clients
}

// Names of the files.
const (
	keyFile         = "node.key"
	nextKeyFile     = "node.key.next"
	certificateFile = "node.crt"
	clientsFile     = "clients.crt"
	// AuthorityFile is written last: where it is, the node has joined.
	AuthorityFile = "ca.crt"
)

// Open reads what is kept of the node, and makes its key the first time.
func Open(cfg Config) (*Member, error) {
	if err := durable.MakeDir(cfg.Dir); err != nil {
		return nil, err
	}
	m := &Member{cfg: cfg, check: check}
	key, err := pki.OpenKey(m.path(keyFile))
	if err != nil {
		return nil, err
	}
	m.key = key
	if _, err := os.Stat(m.path(AuthorityFile)); os.IsNotExist(err) {
		return m, nil
	}
	certificate, err := pki.ReadFile(m.path(certificateFile), false)
	if err != nil {
		return nil, err
	}
	authorities, err := pki.ReadFile(m.path(AuthorityFile), false)
	if err != nil {
		return nil, err
	}
	clients, err := pki.ReadFile(m.path(clientsFile), false)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // one that joined earlier has none until it renews its certificate
		return nil, err
	}
	return m, m.use(certificate, authorities, clients)
}

func (m *Member) path(name string) string { return filepath.Join(m.cfg.Dir, name) }

// use shows a certificate and believes authorities from now on: of netmasters that are
// asked, and, if there are some, of those that ask.
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
	now := &held{own: tls.Certificate{Certificate: [][]byte{certs[0].Raw}, PrivateKey: m.key, Leaf: certs[0]}, roots: roots, known: pki.HashOf(trusted)}
	if len(clients) > 0 {
		if now.peers, err = peersOf(certs[0], clients); err != nil {
			return fmt.Errorf("%s: %w", m.path(clientsFile), err)
		}
	}
	now.tls = &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, Certificates: []tls.Certificate{now.own}}
	m.held.Store(now)
	return nil
}

// peersOf is the trust in the cluster that a certificate is of.
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

// Server is how the node serves; nil until it has joined. Its clients' certificates are
// asked for, and looked at by Verify.
func (m *Member) Server() *tls.Config {
	if m.held.Load() == nil {
		return nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, CipherSuites: suites.TLS12(), NextProtos: []string{"http/1.1"}, ClientAuth: tls.RequestClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &m.held.Load().own, nil },
	}
}

// Verify tells who of the cluster a certificate belongs to, or says what is wrong with it.
func (m *Member) Verify(chain []*x509.Certificate, now time.Time) (identity.Identity, error) {
	return m.held.Load().peers.Verify(chain, now)
}

// Authorities is the hash of those that netmasters are believed by, as
// pki.Authorities.Hash makes it; empty until the node has joined.
func (m *Member) Authorities() string {
	if h := m.held.Load(); h != nil {
		return h.known
	}
	return ""
}

// TLS is how netmasters are talked to, now; nil until the node has joined. It is the same
// configuration until the certificate is renewed.
func (m *Member) TLS() *tls.Config {
	if h := m.held.Load(); h != nil {
		return h.tls
	}
	return nil
}

const (
	// check is how often it is looked whether the certificate is to be renewed: in time, or
	// because the authorities are replaced.
	check = time.Minute
	// Times between tries.
	firstPause, longestPause = time.Second, time.Minute
)

// Run joins, if that is still to be done, and renews the certificate until ctx ends.
func (m *Member) Run(ctx context.Context) error {
	for pace := retry.NewPacer(firstPause, longestPause); m.held.Load() == nil && ctx.Err() == nil; {
		tried := m.tokenFile()
		if err := m.join(ctx); err != nil {
			m.cfg.Log.WithError(err).Error("the node has not joined the cluster, trying again")
			m.wait(ctx, pace, tried)
		}
	}
	var renewal pki.Renewal // at the start, whatever its age
	for pace := retry.NewPacer(firstPause, longestPause); ctx.Err() == nil; {
		if left := renewal.Left(time.Now()); left > 0 {
			retry.Pause(ctx, min(m.check, left))
			if m.outdated(ctx) {
				renewal = pki.Renewal{}
			}
			continue
		}
		tried := m.tokenFile()
		err := m.renew(ctx)
		if err = explainUnknownAuthority(err); fault.Is(err, fault.Denied) {
			err = m.joinAnew(ctx, m.explainRenamed(err))
		}
		if err != nil {
			if ctx.Err() == nil {
				m.cfg.Log.WithError(err).Error("the certificate of the node is not renewed, trying again")
			}
			m.wait(ctx, pace, tried)
			continue
		}
		pace.Reset()
		if renewal = pki.RenewalOf(m.held.Load().own.Leaf, time.Now(), rand.Float64()); renewal.Left(time.Now()) == 0 {
			retry.Pause(ctx, m.check) // who has signed it is ahead: until one of the clocks is right it gets no better
		}
	}
	return nil
}

// outdated tells whether the cluster has other authorities than the node has. It gets the present ones with a renewed certificate
// or, if it can verify no netmaster, by joining again.
func (m *Member) outdated(ctx context.Context) bool {
	masters, err := m.cfg.Masters(ctx)
	if err != nil {
		return false
	}
	known, err := joining.Known(ctx, masters, m.held.Load().roots)
	return fault.Is(explainUnknownAuthority(err), fault.Denied) || err == nil && known != m.Authorities()
}

// explainUnknownAuthority adds to the error that netmasters have certificates of authorities that the node does not know, and what
// to do.
func explainUnknownAuthority(err error) error {
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		return err
	}
	return fault.New(fault.Denied, "the netmasters show certificates of authorities that this node does not know: those of the cluster were replaced while it was away "+
		"(netctl security rotate-ca), or others answer in its place: it needs a join token of now (%w)", err)
}

// explainRenamed adds to a refusal that the node has another name than the one with which it joined, and what to do: a name
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

// joinAnew joins once more as the node that may not renew its certificate, with the same key
// if it is not that which is refused.
func (m *Member) joinAnew(ctx context.Context, refused error) error {
	if m.cfg.TokenFile == "" {
		return fmt.Errorf("%w; to join anew it needs --join-token-file", refused)
	}
	join := m.join
	if joining.Useless(refused) {
		join = m.joinWithNewKey
	}
	if err := join(ctx); err != nil {
		return fmt.Errorf("%w; nor can it join anew: %w", refused, err)
	}
	return nil
}

// join joins with the key that the node has, and with another one if that counts no more.
func (m *Member) join(ctx context.Context) error {
	answer, err := m.joinWith(ctx, m.key)
	if joining.Useless(err) {
		return m.joinWithNewKey(ctx)
	}
	if err != nil {
		return err
	}
	return m.keep(answer)
}

// joinWithNewKey joins with a new key. The node keeps the old key until it has joined, so that a failed join changes nothing.
func (m *Member) joinWithNewKey(ctx context.Context) error {
	next := m.path(nextKeyFile)
	key, err := pki.OpenKey(next)
	if err != nil {
		return err
	}
	answer, err := m.joinWith(ctx, key)
	if joining.Useless(err) {
		return errors.Join(err, durable.Remove(next)) // the next try makes another one
	}
	if err != nil {
		return err
	}
	text, err := pki.ReadFile(next, true)
	if err != nil {
		return err
	}
	// From here to the end of keep it is a node that has not joined, and asks again as the same.
	if err := durable.Remove(m.path(AuthorityFile)); err != nil {
		return err
	}
	if err := durable.Write(m.path(keyFile), text); err != nil {
		return err
	}
	m.key = key
	if err := m.keep(answer); err != nil {
		return err
	}
	return durable.Remove(next)
}

// joinWith sends the token and the key to the first netmaster that proves to belong to the cluster.
func (m *Member) joinWith(ctx context.Context, key *ecdsa.PrivateKey) (answer mastercfg.JoinResponse, err error) {
	text, err := pki.ReadFile(m.cfg.TokenFile, true)
	if err != nil {
		return answer, err
	}
	csr, err := pki.Request(key)
	if err != nil {
		return answer, err
	}
	masters, err := m.cfg.Masters(ctx)
	if err != nil {
		return answer, err
	}
	answer, err = m.sendToken(ctx, masters, string(text), mastercfg.JoinRequest{Host: m.cfg.Host, CSR: csr, Addresses: m.cfg.Addresses, VTEPs: m.cfg.VTEPs})
	if err == nil {
		m.cfg.Log.WithFields(logrus.Fields{"host": m.cfg.Host, "cluster": answer.Cluster}).Info("the node has joined")
	}
	return answer, err
}

// sendToken sends the token to a netmaster that proves to belong to the cluster: by the pin in the token, or by the authorities
// that the node has.
func (m *Member) sendToken(ctx context.Context, masters []string, text string, request mastercfg.JoinRequest) (answer mastercfg.JoinResponse, err error) {
	if m.cfg.AuthoritiesFile != "" && !jointoken.Is(text) {
		authorities, err := pki.ReadFile(m.cfg.AuthoritiesFile, false)
		if err != nil {
			return answer, err
		}
		trusted, err := pki.Pool(authorities)
		if err != nil {
			return answer, fmt.Errorf("%s: %w", m.cfg.AuthoritiesFile, err)
		}
		return joining.JoinVouched(ctx, masters, trusted, strings.TrimSpace(text), request)
	}
	token, err := jointoken.Parse(text)
	if err != nil {
		return answer, fmt.Errorf("%s: %w", m.cfg.TokenFile, err)
	}
	return joining.Join(ctx, masters, token, request)
}

// renew asks for another certificate. The key is proof enough: the old certificate may
// have ended.
func (m *Member) renew(ctx context.Context) error {
	csr, err := pki.Request(m.key)
	if err != nil {
		return err
	}
	masters, err := m.cfg.Masters(ctx)
	if err != nil {
		return err
	}
	answer, err := joining.Renew(ctx, masters, m.held.Load().roots, mastercfg.RenewRequest{Host: m.cfg.Host, CSR: csr})
	if err != nil {
		return err
	}
	return m.keep(answer)
}

// keep uses what a netmaster answered, and writes it down.
func (m *Member) keep(answer mastercfg.JoinResponse) error {
	if err := m.use([]byte(answer.Certificate), []byte(answer.Authorities), []byte(answer.Clients)); err != nil {
		return err
	}
	if err := durable.Write(m.path(certificateFile), []byte(answer.Certificate)); err != nil {
		return err
	}
	if answer.Clients != "" {
		if err := durable.Write(m.path(clientsFile), []byte(answer.Clients)); err != nil {
			return err
		}
	}
	return durable.Write(m.path(AuthorityFile), []byte(answer.Authorities))
}

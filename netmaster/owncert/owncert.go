// Package owncert has the operator's own certificates: one that netmaster presents for some names, and CAs for
// certificates of users.
//
// They complement those of the cluster (package pki). Nodes and netmasters dial addresses and get the cluster's
// own certificate; clients that dial a name in the operator's certificate get that. Certificates of the operator's
// CAs authenticate users only: the one named by the URI in them (package identity), or by a line of a file. Nodes
// and netmasters that join get a certificate from the cluster.
//
// The files are read again from time to time, all of them together or not at all. If they are invalid, that is
// logged, and the previous contents remain in use.
package owncert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/utils/fault"
)

// Files are the paths of the files; empty: there is none.
type Files struct {
	Cert, Key string // presented to clients
	ClientCA  string // CAs of users
	Map       string // users by key or subject, see readMap
}

// Check returns fault.Invalid for files that are useless without each other.
func (f Files) Check() error {
	switch {
	case (f.Cert == "") != (f.Key == ""):
		return fault.New(fault.Invalid, "a certificate needs its key, and the key its certificate: --tls-cert %q, --tls-key %q", f.Cert, f.Key)
	case f.Map != "" && f.ClientCA == "":
		return fault.New(fault.Invalid, "--client-cert-map %q needs --tls-client-ca", f.Map)
	}
	return nil
}

// Certs are the last valid contents of the files.
type Certs struct {
	files Files
	log   *logrus.Entry
	held  atomic.Pointer[held]
}

// held is one version of the contents.
type held struct {
	shown       *tls.Certificate // nil: none
	authorities []*x509.Certificate
	users       users
}

// Open reads the files; fault.Invalid with the name of an invalid one.
func Open(files Files, log *logrus.Entry) (*Certs, error) {
	c := &Certs{files: files, log: log}
	now, err := files.read()
	c.held.Store(now)
	return c, err
}

func (f Files) read() (*held, error) {
	h := &held{}
	if f.Cert != "" {
		if _, err := pki.ReadSecret(f.Key); err != nil {
			return nil, err
		}
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fault.New(fault.Invalid, "certificate %s, key %s: %w", f.Cert, f.Key, err)
		}
		h.shown = &pair
	}
	if f.ClientCA != "" {
		text, err := pki.ReadFile(f.ClientCA)
		if err == nil {
			h.authorities, err = pki.ParseCertificates(text)
		}
		if err != nil {
			return nil, fault.New(fault.Invalid, "%s: %w", f.ClientCA, err)
		}
	}
	if f.Map != "" {
		text, err := pki.ReadFile(f.Map)
		if err != nil {
			return nil, err
		}
		if h.users, err = readMap(string(text)); err != nil {
			return nil, fault.New(fault.Invalid, "%s: %w", f.Map, err)
		}
	}
	return h, nil
}

// rereadAfter is the interval of reading the files.
const rereadAfter = time.Minute

// Run reads the files again each minute, and on each signal from now, until ctx ends.
func (c *Certs) Run(ctx context.Context, now <-chan os.Signal) {
	tick := time.NewTicker(rereadAfter)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-now:
		}
		c.reread()
	}
}

func (c *Certs) reread() {
	now, err := c.files.read()
	if err != nil {
		c.log.WithError(err).Error("certificates that were brought are not replaced: those of before are used")
		return
	}
	before := c.held.Swap(now)
	if leaf := now.shown; leaf != nil && !leaf.Leaf.Equal(before.shown.Leaf) {
		c.log.WithFields(logrus.Fields{"file": c.files.Cert, "until": leaf.Leaf.NotAfter}).Info("another certificate is shown")
	}
}

// Shown returns the certificate for clients; nil if there is none.
func (c *Certs) Shown() *tls.Certificate { return c.held.Load().shown }

// For returns the certificate for a client that requests a name, if it has that name; nil otherwise.
func (c *Certs) For(name string) *tls.Certificate {
	shown := c.Shown()
	if shown == nil || name == "" || shown.Leaf.VerifyHostname(name) != nil {
		return nil
	}
	return shown
}

// Trusts reports whether there are CAs of users.
func (c *Certs) Trusts() bool { return c.held.Load().authorities != nil }

// Edition is a version of the contents. Two editions are equal if they are the same version.
type Edition struct{ held *held }

// Edition returns the present version.
func (c *Certs) Edition() Edition { return Edition{c.held.Load()} }

// Authorities returns the CAs of users.
func (e Edition) Authorities() []*x509.Certificate { return e.held.authorities }

// Verify returns the user of a cluster that a certificate of the operator's CAs authenticates; otherwise
// fault.Unauthenticated with the reason.
func (c *Certs) Verify(cluster string, chain []*x509.Certificate, now time.Time) (identity.Identity, error) {
	h := c.held.Load()
	trust := pki.Trust{Cluster: cluster, Authorities: h.authorities, Use: x509.ExtKeyUsageClientAuth}
	if err := trust.Signed(chain, now); err != nil {
		return identity.Identity{}, err
	}
	if name, mapped := h.users.of(chain[0]); mapped {
		return identity.Identity{Kind: identity.User, Name: name, KeyHash: pki.KeyHash(chain[0])}, nil
	}
	who, err := trust.Verify(chain, now)
	switch {
	case err != nil:
		err = fault.New(fault.Unauthenticated, "%w; no line of --client-cert-map has %s%s or %s", err, keyPrefix, pki.KeyHash(chain[0]), strings.Join(subjects(chain[0]), " or "))
	case who.Kind != identity.User:
		err = fault.New(fault.Unauthenticated, "certificate: %s has not joined: certificates of nodes and netmasters are those of the cluster's own authorities", who)
	}
	return who, err
}

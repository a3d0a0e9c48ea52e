// Package owncert is certificates that operators bring themselves: one that netmaster
// serves with under some names, and authorities whose certificates authenticate users.
//
// They are beside those of the cluster (package pki). Nodes and netmasters dial addresses
// and are shown the cluster's own certificate; clients that dial a name in the operator's certificate are
// shown that. Certificates of the operator's authorities stand for users only: for the one that the URI
// in them names (package identity), or that a line of a file does. Nodes and netmasters that join are
// given a certificate by the cluster.
//
// The files are read again from time to time, all of them together or not at all. If they
// cannot be used, that is logged, and what was used before stays in use.
package owncert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/utils/fault"
)

// Files are the paths; empty ones mean that there is none.
type Files struct {
	Cert, Key string // shown to clients
	ClientCA  string // authorities of users
	Map       string // users by key or subject, see readMap
}

// Check refuses files that mean nothing without each other. Errors are fault.Invalid.
func (f Files) Check() error {
	switch {
	case (f.Cert == "") != (f.Key == ""):
		return fault.New(fault.Invalid, "a certificate needs its key, and the key its certificate: --tls-cert %q, --tls-key %q", f.Cert, f.Key)
	case f.Map != "" && f.ClientCA == "":
		return fault.New(fault.Invalid, "--client-cert-map %q needs --tls-client-ca", f.Map)
	}
	return nil
}

// Certs are what the files have held when they could last be used.
type Certs struct {
	files Files
	log   *logrus.Entry
	held  atomic.Pointer[held]
}

// held is what is used at a time.
type held struct {
	shown       *tls.Certificate // nil: none
	authorities []*x509.Certificate
	users       users
}

// Open reads the files. Those that cannot be used are a fault.Invalid that names them.
func Open(files Files, log *logrus.Entry) (*Certs, error) {
	c := &Certs{files: files, log: log}
	now, err := files.read()
	c.held.Store(now)
	return c, err
}

func (f Files) read() (*held, error) {
	h := &held{}
	if f.Cert != "" {
		if _, err := pki.ReadFile(f.Key, true); err != nil {
			return nil, err
		}
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fault.New(fault.Invalid, "certificate %s, key %s: %w", f.Cert, f.Key, err)
		}
		h.shown = &pair
	}
	if f.ClientCA != "" {
		text, err := pki.ReadFile(f.ClientCA, false)
		if err == nil {
			h.authorities, err = pki.ParseCertificates(text)
		}
		if err != nil {
			return nil, fault.New(fault.Invalid, "%s: %w", f.ClientCA, err)
		}
	}
	if f.Map != "" {
		text, err := pki.ReadFile(f.Map, false)
		if err != nil {
			return nil, err
		}
		if h.users, err = readMap(string(text)); err != nil {
			return nil, fault.New(fault.Invalid, "%s: %w", f.Map, err)
		}
	}
	return h, nil
}

// rereadAfter is how often the files are read.
const rereadAfter = time.Minute

// Run reads the files again each minute, and when it is told to, until ctx ends.
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

// Shown is the certificate for clients; nil: there is none.
func (c *Certs) Shown() *tls.Certificate { return c.held.Load().shown }

// For is the certificate for a client that asks for a name, if it has that name; nil otherwise.
func (c *Certs) For(name string) *tls.Certificate {
	shown := c.Shown()
	if shown == nil || name == "" || shown.Leaf.VerifyHostname(name) != nil {
		return nil
	}
	return shown
}

// Trusts tells whether there are authorities of users.
func (c *Certs) Trusts() bool { return c.held.Load().authorities != nil }

// Edition is what the files have held when they were read. One that is equal to another is the same.
type Edition struct{ held *held }

// Edition is the present one.
func (c *Certs) Edition() Edition { return Edition{c.held.Load()} }

// Authorities are those of users.
func (e Edition) Authorities() []*x509.Certificate { return e.held.authorities }

// Verify tells which user of a cluster a certificate of the operator's authorities stands
// for. Anything else is a fault.Unauthenticated that says what is wrong.
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
	if err == nil && who.Kind != identity.User {
		err = fault.New(fault.Unauthenticated, "certificate: %s has not joined: certificates of nodes and netmasters are those of the cluster's own authorities", who)
	}
	return who, err
}

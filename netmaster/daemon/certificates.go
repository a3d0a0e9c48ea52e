package daemon

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/owncert"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/notify"
)

// certificates are this netmaster's copy of the cluster's CAs, and its own certificates, which it signs itself:
// at its start, and again before they expire. Open connections keep the certificate that they began with.
type certificates struct {
	cfg     Security
	log     *logrus.Entry
	current atomic.Pointer[issued] // nil: no CAs
	own     *owncert.Certs         // certificates that the operator supplies
	// changed is called when the CAs are replaced; set before Run.
	changed   func()
	installed notify.Signal // sent when the certificates are replaced

	making   sync.Mutex      // held to make, replace or drop CAs, in memory and on disk; guards the next two
	unsigned pki.Authorities // CAs that could not sign at the start, as when the clock was not set yet; nil: none
	unusable error           // why unsigned cannot be used
}

// issued are the certificates that a netmaster has signed for itself, with their CAs. It is replaced as a whole.
type issued struct {
	authorities    pki.Authorities
	server, client *tls.Certificate
	dialer         *tls.Config // for connections to other netmasters
	store          *tls.Config // for connections to its own member of the store; nil: it needs none
}

// newCertificates reads the CAs, if there are any yet.
func newCertificates(cfg Security, log *logrus.Entry) (*certificates, error) {
	own, err := owncert.Open(cfg.Own, log)
	if err != nil {
		return nil, err
	}
	c := &certificates{cfg: cfg, log: log, own: own, changed: func() {}, installed: notify.New()}
	if cfg.Dir == "" {
		return c, nil
	}
	all, err := pki.Load(cfg.Dir)
	if fault.Is(err, fault.NotFound) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w (put it right, also from a backup of the directory, or move its %s.crt away: another netmaster then gives its authorities for a token, --join-token-file)",
			err, pki.API)
	}
	if err := c.install(all); err != nil {
		c.unsigned, c.unusable = all, err
		log.WithError(err).Error("no certificates yet, trying again each minute: plain requests are served meanwhile")
	}
	return c, nil
}

// install signs certificates with CAs, and uses them from now on. The caller holds making.
func (c *certificates) install(all pki.Authorities) error {
	now := time.Now()
	server, err := c.sign(all[pki.API], x509.ExtKeyUsageServerAuth, now)
	if err != nil {
		return err
	}
	client, err := c.sign(all[pki.Client], x509.ExtKeyUsageClientAuth, now)
	if err != nil {
		return err
	}
	shown := &issued{authorities: all, server: server, client: client, dialer: dialing(all[pki.API], client, "http/1.1")}
	if c.cfg.Store {
		if shown.store, err = c.storeTLS(all[pki.Store], now); err != nil {
			return err
		}
	}
	c.current.Store(shown)
	c.changed()
	c.installed.Send()
	return nil
}

// sign makes a certificate for a key that is never on disk.
func (c *certificates) sign(by *pki.Authority, use x509.ExtKeyUsage, now time.Time) (*tls.Certificate, error) {
	key, err := pki.NewKey()
	if err != nil {
		return nil, err
	}
	leaf := c.leaf(key, use)
	if use == x509.ExtKeyUsageServerAuth {
		c.serving(&leaf)
	}
	return issue(by, leaf, key, now)
}

func (c *certificates) leaf(key *ecdsa.PrivateKey, use x509.ExtKeyUsage) pki.Leaf {
	return pki.Leaf{Who: identity.Identity{Kind: identity.Master, Name: c.cfg.Name}, Use: use, Key: key.Public(), Life: c.cfg.LeafLife}
}

// serving adds the names and addresses by which clients reach this netmaster.
func (c *certificates) serving(leaf *pki.Leaf) {
	leaf.Names = append([]string{"localhost"}, c.cfg.Names...)
	leaf.Addresses = append([]netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, c.cfg.Addresses...)
}

func issue(by *pki.Authority, leaf pki.Leaf, key *ecdsa.PrivateKey, now time.Time) (*tls.Certificate, error) {
	signed, err := by.Sign(leaf, now)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{signed.Raw}, PrivateKey: key, Leaf: signed}, nil
}

// dropForeign drops CAs of another cluster.
func (c *certificates) dropForeign(cluster string) {
	c.making.Lock()
	defer c.making.Unlock()
	if own := c.authorities(); own != nil && own.Cluster() != cluster {
		c.log.WithField("cluster", cluster).Errorf("the authorities of %s are those of another cluster, %s: they are not used; "+
			"give this netmaster the directory of one that has those of the cluster, and start it again", c.cfg.Dir, own.Cluster())
		c.current.Store(nil)
		c.changed()
	}
}

// makeAuthorities makes the CAs of a cluster, and writes them to disk before they are used. Existing ones stay;
// they are never those of another cluster (dropForeign).
func (c *certificates) makeAuthorities() error {
	c.making.Lock()
	defer c.making.Unlock()
	if c.hasAuthorities() {
		return nil
	}
	if c.unsigned != nil {
		return c.cannotUse()
	}
	all, err := pki.NewCluster(time.Now())
	if err != nil {
		return err
	}
	if err := all.Save(c.cfg.Dir); err != nil {
		return err
	}
	c.log.WithFields(logrus.Fields{"cluster": all.Cluster(), "pin": pki.KeyHash(all[pki.API].Certificate), "dir": c.cfg.Dir}).Info("made the authorities of this cluster")
	return c.install(all)
}

// renewCheck is how often the wall clock is compared with the certificates' times: after a
// machine was suspended, a timer may be late.
const renewCheck = time.Minute

// Run renews the certificates until ctx ends, whenever there are some. cluster returns the cluster in the
// security record; empty: there is none yet. A follower compares it here: the CAs on its disk may be older than
// the cluster, which another netmaster has founded.
func (c *certificates) Run(ctx context.Context, cluster func(context.Context) (string, error)) {
	var seen *issued
	var renewal pki.Renewal
	var wait time.Duration
	for ; ctx.Err() == nil; c.pause(ctx, wait) {
		wait = renewCheck
		c.retrySigning()
		if id, err := cluster(ctx); err != nil {
			c.log.WithError(err).Warn("not known whether the authorities are those of the cluster")
		} else if id != "" {
			c.dropForeign(id)
		}
		now := c.current.Load()
		if now == nil {
			continue
		}
		if now != seen {
			seen, renewal = now, pki.RenewalOf(now.server.Leaf, time.Now(), rand.Float64())
		}
		if left := renewal.Left(time.Now()); left > 0 {
			wait = min(renewCheck, left)
			continue
		}
		if err := c.renew(now); err != nil {
			c.log.WithError(err).Error("certificates cannot be renewed")
		}
	}
}

// pause waits for a time, or until the certificates are replaced.
func (c *certificates) pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.installed:
	case <-ctx.Done():
	}
}

// renew replaces the certificates that the caller has seen, unless they are replaced already: CAs that have
// been replaced meanwhile stay replaced.
func (c *certificates) renew(seen *issued) error {
	c.making.Lock()
	defer c.making.Unlock()
	if c.current.Load() != seen {
		return nil
	}
	if err := c.install(seen.authorities); err != nil {
		return err
	}
	c.log.WithField("until", c.current.Load().server.Leaf.NotAfter).Info("certificates renewed")
	return nil
}

// replace writes CAs to disk and uses them, in place of those that the caller has seen. If these were replaced
// meanwhile, or the new ones cannot sign, nothing changes.
func (c *certificates) replace(seen, all pki.Authorities) error {
	c.making.Lock()
	defer c.making.Unlock()
	if c.authorities().Hash() != seen.Hash() {
		return fault.New(fault.Conflict, "the authorities of this netmaster have been replaced meanwhile")
	}
	if err := all.MaySign(time.Now()); err != nil {
		return err
	}
	if err := all.Save(c.cfg.Dir); err != nil {
		return err
	}
	return c.install(all)
}

// retrySigning tries to use the CAs that could not sign at the start.
func (c *certificates) retrySigning() {
	c.making.Lock()
	defer c.making.Unlock()
	if c.unsigned == nil {
		return
	}
	if c.unusable = c.install(c.unsigned); c.unusable == nil {
		c.log.Info("certificates made")
		c.unsigned = nil
	}
}

// whyUnsigned returns an error that says why the CAs on the disk cannot be used; nil: they are used, or there are none.
func (c *certificates) whyUnsigned() error {
	c.making.Lock()
	defer c.making.Unlock()
	if c.unsigned == nil {
		return nil
	}
	return c.cannotUse()
}

// cannotUse returns the error of CAs that cannot be used. The caller holds making.
func (c *certificates) cannotUse() error {
	return fault.New(fault.Unavailable, "the authorities in %s cannot be used: %w", c.cfg.Dir, c.unusable)
}

// serves reports whether there is a certificate to serve TLS with.
func (c *certificates) serves() bool { return c.hasAuthorities() || c.own.Shown() != nil }

// noneOnDisk reports, before Run, whether there are no CAs on the disk.
func (c *certificates) noneOnDisk() bool { return !c.hasAuthorities() && c.unsigned == nil }

// hasAuthorities reports whether there are CAs.
func (c *certificates) hasAuthorities() bool { return c.current.Load() != nil }

// authorities returns the CAs; nil while there are none.
func (c *certificates) authorities() pki.Authorities {
	if h := c.current.Load(); h != nil {
		return h.authorities
	}
	return nil
}

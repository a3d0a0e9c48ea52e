package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/utils/fault"
)

// member is the embedded store, if there is one; else its methods do nothing.
type member struct {
	cfg          *embedded.Config // nil: etcd runs elsewhere
	secure       bool             // it uses TLS, and members are added while its cluster runs
	certificates *certificates
	db           *objdb.DB // set before Run
	log          *logrus.Entry
	failed       chan error // the error that ended it
	// announce updates the registration; set before Run.
	announce func()

	waits atomic.Pointer[fault.Error] // why the last attempt could not start it

	mu       sync.Mutex
	server   *embedded.Server // nil: not started yet
	believes *x509.CertPool   // CAs that it trusts: etcd reads them at its start only; nil: it is plain
	known    string           // hash of the CAs from which these are
	told     *embedded.Server // whose URL the other members have; if it differs from server, they do not have the present one yet
}

const (
	// memberStart limits the wait for the other members: then the daemon serves as with any store that is down.
	memberStart = 5 * time.Second
	// memberLook is the time between two checks of the member.
	memberLook = time.Second
)

func newMember(cfg *embedded.Config, certificates *certificates, log *logrus.Entry) *member {
	return &member{cfg: cfg, secure: isSecure(cfg), certificates: certificates, log: log, failed: make(chan error, 1), announce: func() {}}
}

// isSecure reports whether a member uses TLS with the others.
func isSecure(cfg *embedded.Config) bool {
	return cfg != nil && strings.HasPrefix(cfg.PeerURL, "https:")
}

// Start starts the member, unless it has to join its cluster first, which Run does.
func (m *member) Start(ctx context.Context) error {
	if m.cfg == nil {
		return nil
	}
	// A member that was killed before it had any data has only an empty log: it joins again.
	if err := embedded.DiscardUnborn(m.cfg.Dir); err != nil {
		return err
	}
	switch {
	case !m.secure:
		return m.start(ctx, *m.cfg)
	case m.cfg.WasPlain() && (m.certificates.hasAuthorities() || m.certificates.noneOnDisk()):
		return m.startPlain(ctx)
	case embedded.HasData(m.cfg.Dir) && m.certificates.hasAuthorities():
		return m.start(ctx, m.withCertificates(nil))
	}
	return nil
}

// startPlain starts a member of a cluster of an earlier version without TLS, as the others have its plain URL.
// When there are CAs it is restarted with TLS in its turn, while the members that it knows are reachable.
// Others may have been restarted with TLS while it was down; they can still reach it, and it learns their URLs.
func (m *member) startPlain(ctx context.Context) error {
	cfg := *m.cfg
	cfg.PeerURL, cfg.ClientURL = plain(cfg.PeerURL), plain(cfg.ClientURL)
	cfg.Grows, cfg.Peers = true, nil
	m.log.Warn("the member of the store is started without TLS, as before, until there are authorities and it has its turn")
	return m.start(ctx, cfg)
}

func plain(url string) string { return strings.Replace(url, "https:", "http:", 1) }

func (m *member) start(ctx context.Context, cfg embedded.Config) error {
	ctx, cancel := context.WithTimeout(ctx, memberStart)
	defer cancel()
	var believes *x509.CertPool
	var known string
	if cfg.CAFile != "" { // before etcd reads it: changes in between are detected later
		now := m.certificates.current.Load()
		if now == nil {
			return fault.New(fault.Unavailable, "the authorities in %s are not those of the cluster", m.certificates.cfg.Dir)
		}
		believes, known = now.store.RootCAs, now.authorities.Hash()
	}
	server, err := embedded.Start(ctx, cfg)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.server, m.believes, m.known = server, believes, known
	return nil
}

// running returns the member's server; nil if there is none, or it has not been started yet.
func (m *member) running() *embedded.Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.server
}

// missing returns the other members that this one does not reach; none while it has not been started.
func (m *member) missing(ctx context.Context) ([]string, error) {
	if server := m.running(); server != nil {
		return server.Missing(ctx)
	}
	return nil, nil
}

// dial returns the TLS configuration to reach the member now; nil: without TLS.
func (m *member) dial() (*tls.Config, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server != nil && m.believes == nil {
		return nil, nil
	}
	return m.certificates.store()
}

// notRunning reports whether the store cannot be read because the member has not been started yet.
func (m *member) notRunning() bool { return m.cfg != nil && m.running() == nil }

// Holder returns the holder of a lock in the store. While the member is not started, the error says what it waits for.
func (m *member) Holder(ctx context.Context, lock string) (string, error) {
	if waits := m.waits.Load(); waits != nil && m.notRunning() {
		return "", waits
	}
	return m.db.Holder(ctx, lock)
}

// Run lets the member join its cluster, if it has not, then renews and publishes it until ctx ends.
func (m *member) Run(ctx context.Context) {
	if m.cfg == nil || m.secure && !m.enter(ctx) {
		return
	}
	m.announce()
	tick := time.NewTicker(memberLook)
	defer tick.Stop()
	for {
		if m.secure {
			m.publish(ctx)
			m.renew(ctx)
		}
		select {
		case err := <-m.running().Err():
			m.fail(err)
			return
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// publish writes the member's present URL to the store. In a cluster of an earlier version without TLS, the
// members are restarted with https URLs one after the other. The next one waits until the others have the new
// URL: two members that have only old URLs of each other could not connect any more.
func (m *member) publish(ctx context.Context) (done bool) {
	limited, cancel := context.WithTimeout(ctx, memberStart)
	defer cancel()
	server := m.running()
	if err := server.PublishPeerURL(limited); err != nil {
		if ctx.Err() == nil {
			m.log.WithError(err).Warn("the other members are not told where this one is, trying again")
		}
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = server
	return true
}

// isKnownToOthers reports whether the other members have the final URL of this one.
func (m *member) isKnownToOthers() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	plain := m.believes == nil && m.certificates.hasAuthorities() // it still has to be restarted with TLS
	return !m.secure || m.server != nil && m.told == m.server && !plain
}

// fail sends the error that has ended the member to Err.
func (m *member) fail(err error) {
	select {
	case m.failed <- err:
	default: // an earlier error was sent already
	}
}

// Err carries the error that ended the member.
func (m *member) Err() <-chan error { return m.failed }

// Stop stops the member.
func (m *member) Stop() error {
	server := m.running()
	if server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), memberStopTime)
	defer cancel()
	return server.Stop(ctx)
}

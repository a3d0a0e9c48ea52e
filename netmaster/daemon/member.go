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

// member is the embedded store, if there is one; without, it does nothing.
type member struct {
	cfg          *embedded.Config // nil: etcd runs elsewhere
	secure       bool             // it speaks TLS, and others are added to its cluster while that runs
	certificates *certificates
	db           *objdb.DB // set before Run
	log          *logrus.Entry
	failed       chan error // what ended it
	// announce says what this netmaster knows; set before Run.
	announce func()

	waits atomic.Pointer[fault.Error] // what has kept it from being started at the last try

	mu       sync.Mutex
	server   *embedded.Server // nil: not started yet
	believes *x509.CertPool   // whom it takes certificates from: etcd reads that at its start only; nil: it is plain
	known    string           // hash of the authorities of which it believes that of the store
	told     *embedded.Server // whose URL the other members know; another one than server: they are not told yet
}

const (
	// memberStart bounds waiting for the other members: the daemon serves
	// meanwhile, and does as with any store that is away.
	memberStart = 5 * time.Second
	// memberLook is how often it is looked after.
	memberLook = time.Second
)

func newMember(cfg *embedded.Config, certificates *certificates, log *logrus.Entry) *member {
	return &member{cfg: cfg, secure: isSecure(cfg), certificates: certificates, log: log, failed: make(chan error, 1), announce: func() {}}
}

// isSecure tells whether a member speaks TLS with the others.
func isSecure(cfg *embedded.Config) bool {
	return cfg != nil && strings.HasPrefix(cfg.PeerURL, "https:")
}

// Start starts the member, unless it has to enter its cluster first, which Run does.
func (m *member) Start(ctx context.Context) error {
	if m.cfg == nil {
		return nil
	}
	// Of a member that was killed before it had anything the log is no data: it enters again.
	if err := embedded.DiscardUnborn(m.cfg.Dir); err != nil {
		return err
	}
	switch {
	case !m.secure:
		return m.start(ctx, *m.cfg)
	case m.cfg.WasPlain() && (m.certificates.hasAuthorities() || m.certificates.noneOnDisk()):
		return m.startPlain(ctx)
	case embedded.HasData(m.cfg.Dir) && m.certificates.hasAuthorities():
		return m.start(ctx, m.armed(nil))
	}
	return nil
}

// startPlain starts a member of a cluster of an earlier version as it was: the others know it by that URL. When there are
// authorities it has its turn to be started again, with TLS, while those listen that it knows itself: others may have
// got TLS while it was away, which reach it and tell it so.
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
	if cfg.CAFile != "" { // before etcd reads it: what comes in between is found out later
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

// running is the member; nil: there is none, or it has not been started yet.
func (m *member) running() *embedded.Server {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.server
}

// missing are the other members that this one does not reach; none without one: who has a store of his own watches over its members.
func (m *member) missing(ctx context.Context) ([]string, error) {
	if server := m.running(); server != nil {
		return server.Missing(ctx)
	}
	return nil, nil
}

// dial is how the member is reached now: nil is plainly.
func (m *member) dial() (*tls.Config, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server != nil && m.believes == nil {
		return nil, nil
	}
	return m.certificates.store()
}

// away tells that the store cannot be asked: the member through which it is has not been started yet.
func (m *member) away() bool { return m.cfg != nil && m.running() == nil }

// Holder is who holds a lock of the store. While the member is away, the error says what it waits for.
func (m *member) Holder(ctx context.Context, lock string) (string, error) {
	if waits := m.waits.Load(); waits != nil && m.away() {
		return "", waits
	}
	return m.db.Holder(ctx, lock)
}

// Run has the member enter its cluster, if it has not, and looks after it until ctx ends.
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

// publish has the others reach the member where it listens now: a cluster of an earlier version, whose members
// spoke plainly, is closed by starting them with https URLs, one after the other. The next one is started when
// they know: two that know each other by URLs of before only do not reach each other any more.
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

// reached tells whether the other members know where this one is, and it stays there.
func (m *member) reached() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	plain := m.believes == nil && m.certificates.hasAuthorities() // it is still to have its turn
	return !m.secure || m.server != nil && m.told == m.server && !plain
}

// fail says what has ended the member.
func (m *member) fail(err error) {
	select {
	case m.failed <- err:
	default: // it is known already
	}
}

// Err carries the error that ended the member.
func (m *member) Err() <-chan error { return m.failed }

// Stop leaves the cluster of members to the others.
func (m *member) Stop() error {
	server := m.running()
	if server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), memberStopTime)
	defer cancel()
	return server.Stop(ctx)
}

// Package embedded runs an etcd member inside the process, alone on one machine or as one of several, so that
// netmasters need no separate store.
//
// No code outside this package depends on the store being in the same process: netmaster uses its own member
// through objdb and the client URL, like any other client. That keeps one code path, and other processes
// (agents, an operator's etcdctl) can use the same URL.
//
// The data directory decides. A member with data is started from it; the peers map is used once, when the
// cluster is founded or joined, and must not change afterwards, which is checked. A cluster may also grow: one
// member founds it, and others are added while it runs (Config.Grows).
package embedded

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.uber.org/zap/zapcore"

	"github.com/contiv/netplugin/utils/fault"
)

const (
	// etcd's defaults. With shorter timeouts, members on a machine that is busy for half a second depose each
	// other, and each new leader extends all leases.
	heartbeatMs = 100
	electionMs  = 1000

	// History is for watches to resume; a client that was away longer lists again.
	compactionMode      = "periodic"
	compactionRetention = "5m"

	// Watches of rarely changed keys learn the present revision, and so resume within the kept history.
	progressInterval = 20 * time.Second

	// The log is kept in memory for members that are behind: up to a hundred entries more than catchUpEntries. An
	// entry is a whole batch of ours, some 100 KiB under load and never more than 1.3 MiB, so this limits the bytes.
	// A member that is further behind, by about a second of full load, receives the whole store instead.
	snapshotEntries = 2000 // after so many entries the log on disk is truncated
	catchUpEntries  = 250

	defaultQuota = 4 << 30
	maxTxnOps    = 5120 // room for objdb.ManyOps
	maxLearners  = 8    // members that were added and have not caught up yet
)

// Config configures the member.
type Config struct {
	Dir       string // data directory; created, reused at restart
	Name      string
	ClientURL string            // listened on and advertised to clients
	PeerURL   string            // listened on and advertised to peers
	Peers     map[string]string // name -> peer URL of all members, this one included; empty: alone

	// Grows is for a cluster that one member founds, and to which others are added while it runs. For a member
	// without data, Peers are then the members of the cluster, including this one, after it was added
	// (objdb.AddMember); empty: it founds the cluster. For a member with data they are not used.
	Grows bool

	// FoundingRefused is why a member without data must not found a cluster even if no other member reports one;
	// nil: it may.
	FoundingRefused error

	// Quota is the size of the member's file, in bytes, at which it refuses to grow; 0: 4 GiB. The same for all
	// members.
	Quota int64

	// NoFsync makes the member not wait for its disk. Acknowledged writes survive the end of the process, but
	// not of the machine. For tests.
	NoFsync bool

	// For https URLs. With a CAFile clients and peers must present a certificate of it, whatever their address.
	// Certificate and key are read again for each connection, the CAs by etcd at the start only: to replace a
	// CA, the file needs both at first, and each member a restart.
	CertFile, KeyFile, CAFile string

	Log *logrus.Entry
}

// Server is a running member.
type Server struct {
	etcd   *embed.Etcd
	errs   chan error
	client string
	cfg    Config
	calls  *calls
	lost   atomic.Bool // its raft has ended, for which etcd would wait when it stops

	stop    sync.Once
	stopped chan struct{} // closed when etcd has been closed
	relayed chan struct{} // closed when no more errors are relayed
	noted   chan struct{} // closed when the record of founding is cleared, or etcd has ended
}

// Start starts the member and returns when it is ready to serve, or when ctx ends: one of several members has
// to wait for a quorum, which may come later; see Ready.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = logrus.WithField("component", "etcd")
	}
	peers, err := cfg.peers()
	if err != nil {
		return nil, err
	}
	if err := DiscardUnborn(cfg.Dir); err != nil {
		return nil, err
	}
	if err := cfg.claim(peers); err != nil {
		return nil, err
	}
	if err := completeRestored(cfg.Dir); err != nil {
		return nil, err
	}
	s := &Server{
		errs:    make(chan error, 1),
		client:  cfg.ClientURL,
		cfg:     cfg,
		calls:   newCalls(),
		stopped: make(chan struct{}),
		relayed: make(chan struct{}),
		noted:   make(chan struct{}),
	}
	gaveUp := make(chan error, 1)
	settings, err := cfg.settings(peers, func(cause error) {
		s.fail(cause)
		select {
		case gaveUp <- cause:
		default:
		}
	})
	if err != nil {
		return nil, err
	}
	if settings.ClusterState, err = cfg.clusterState(peers); err != nil {
		return nil, err
	}
	settings.GRPCAdditionalServerOptions = s.calls.options()
	s.etcd, err = startEtcd(settings, gaveUp)
	if err != nil {
		s.calls.stop()
		return nil, fault.New(fault.Unavailable, "embedded etcd %q in %s: %w", cfg.Name, cfg.Dir, err)
	}
	go s.relay()
	go s.found()
	select {
	case <-s.noted:
	case <-ctx.Done():
		cfg.Log.WithField("member", cfg.Name).Info("started, waiting for a quorum")
	}
	return s, nil
}

// found clears the record of founding when the cluster exists.
func (s *Server) found() {
	defer close(s.noted)
	select {
	case <-s.Ready():
		if err := s.cfg.founded(); err != nil {
			s.cfg.Log.WithError(err).Warn("founding note")
		}
	case <-s.etcd.Server.StopNotify():
	}
}

// Ready is closed when the member has joined its cluster and serves.
func (s *Server) Ready() <-chan struct{} { return s.etcd.Server.ReadyNotify() }

// ClientURLs returns the client URLs of this member.
func (s *Server) ClientURLs() []string { return []string{s.client} }

// PublishPeerURL updates the peer URL of this member in the cluster, if that is not the one that it listens on.
// A member without a vote was added with the right one.
func (s *Server) PublishPeerURL(ctx context.Context) error {
	for _, own := range s.etcd.Server.Cluster().Members() {
		if own.ID != s.etcd.Server.MemberID() || own.IsLearner || slices.Equal(own.PeerURLs, []string{s.cfg.PeerURL}) {
			continue
		}
		update := membership.Member{ID: own.ID, RaftAttributes: membership.RaftAttributes{PeerURLs: []string{s.cfg.PeerURL}}}
		if _, err := s.etcd.Server.UpdateMember(ctx, update); err != nil {
			return fault.New(fault.Unavailable, "embedded etcd: peer URL %s: %w", s.cfg.PeerURL, err)
		}
	}
	if s.cfg.Grows {
		return s.cfg.moved()
	}
	return nil
}

// Err returns the error that ended the member, if it ends before Stop.
func (s *Server) Err() <-chan error { return s.errs }

// Stop hands leadership to another member, if this one has it, and
// stops. When ctx ends first, stopping continues in the background. A member whose data has gone back only refuses
// calls from then on: its process has to end.
func (s *Server) Stop(ctx context.Context) error {
	if s.lost.Load() {
		s.calls.stop()
		return nil
	}
	s.stop.Do(func() {
		go func() {
			defer close(s.stopped)
			s.calls.stop()
			s.etcd.Server.Stop() // before the listeners are closed: it tells a peer to take over
			s.etcd.Close()
			<-s.relayed
			<-s.noted
		}()
	})
	select {
	case <-s.stopped:
		return nil
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "stop embedded etcd: %w", ctx.Err())
	}
}

// relay forwards the errors of etcd until it is closed. etcd reports
// nothing for a member that ends because it was removed from the cluster.
func (s *Server) relay() {
	defer close(s.relayed)
	ended := s.etcd.Server.StopNotify()
	for {
		select {
		case err, open := <-s.etcd.Err():
			if !open {
				return
			}
			s.fail(err)
		case <-ended:
			ended = nil
			s.fail(errEnded)
		}
	}
}

var errEnded = errors.New("the member has ended; it may have been removed from its cluster")

// fail reports an error; only the first one is used.
func (s *Server) fail(err error) {
	if errors.Is(err, errGoneBack) {
		s.lost.Store(true)
	}
	select {
	case s.errs <- fault.New(fault.Unavailable, "embedded etcd: %w", err):
	default:
	}
}

// settings converts the configuration for etcd.
func (c Config) settings(peers map[string]string, fatal func(error)) (*embed.Config, error) {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fault.New(fault.Invalid, "etcd data directory: %w", err)
	}
	client, err := parseURL("client", c.ClientURL)
	if err != nil {
		return nil, err
	}
	peer, err := parseURL("peer", c.PeerURL)
	if err != nil {
		return nil, err
	}
	s := embed.NewConfig()
	s.Name, s.Dir = c.Name, c.Dir
	s.ListenClientUrls, s.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	s.ListenPeerUrls, s.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	s.InitialCluster = initialCluster(peers)
	s.InitialClusterToken = "contiv"
	if s.PeerTLSInfo = c.tls(); client.Scheme == "https" {
		s.ClientTLSInfo = c.tls()
	}
	s.TlsMinVersion = "TLS1.3" // clients and other members are netmasters only
	s.MaxLearners = maxLearners

	s.TickMs, s.ElectionMs = heartbeatMs, electionMs
	s.AutoCompactionMode, s.AutoCompactionRetention = compactionMode, compactionRetention
	s.WatchProgressNotifyInterval = progressInterval
	s.SnapshotCount, s.SnapshotCatchUpEntries = snapshotEntries, catchUpEntries
	s.QuotaBackendBytes, s.MaxTxnOps = cmp.Or(c.Quota, defaultQuota), maxTxnOps
	s.EnableGRPCGateway = false
	s.UnsafeNoFsync = c.NoFsync

	s.ZapLoggerBuilder = embed.NewZapLoggerBuilder(logger(c.Log, fatal))
	s.LogLevel = zapcore.WarnLevel.String() // gRPC's own logger follows this one
	return s, nil
}

func (c Config) tls() transport.TLSInfo {
	return transport.TLSInfo{
		CertFile: c.CertFile, KeyFile: c.KeyFile,
		TrustedCAFile: c.CAFile, ClientCertAuth: c.CAFile != "", SkipClientSANVerify: true,
	}
}

func parseURL(what, raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fault.New(fault.Invalid, "etcd %s URL %q: %w", what, raw, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || u.Path != "" {
		return nil, fault.New(fault.Invalid, "etcd %s URL %q: must be http(s)://host:port", what, raw)
	}
	return u, nil
}

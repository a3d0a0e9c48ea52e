package gate

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/utils/notify"
)

// Config configures a gate. DB and Verify are required.
type Config struct {
	DB *objdb.DB
	// Verify returns the identity of a certificate.
	Verify func(chain []*x509.Certificate, now time.Time) (identity.Identity, error)
	// Open decrypts a value that the keyring has encrypted for a key of the store; nil: it stays encrypted.
	Open   func(place, sealed string) (string, error)
	Audit  *audit.Log // nil: refusals are only in the daemon's log
	Log    *logrus.Entry
	Limits Limits

	Linger time.Duration // how long a tenant is served after its last endpoint is removed; default 6 min, longer than agents keep it
}

// lingerTime is the default of Config.Linger.
const lingerTime = 6 * time.Minute

// progressTime is the interval of progress notifications of an idle watch.
const progressTime = time.Minute

// replica is the mirror by which a gate follows the store.
type replica interface {
	Run(ctx context.Context) error
	Synced() bool
	WaitRevision(ctx context.Context, rev int64) error
	WaitChange(ctx context.Context, rev int64) error
}

// Gate serves nodes while Run runs.
type Gate struct {
	cfg       Config
	log       *logrus.Entry
	index     *index
	mirror    replica
	callers   *callers
	strangers *ratelimit.Limiter
	queue     *queue
	scans     chan struct{} // places for reads of many keys
	renewals  *renewals
	present   *present
	streams   streams
	server    *grpc.Server
}

// New returns a gate.
func New(cfg Config) *Gate {
	if cfg.Log == nil {
		cfg.Log = logrus.WithField("component", "gate")
	}
	if cfg.Linger <= 0 {
		cfg.Linger = lingerTime
	}
	cfg.Limits = cfg.Limits.withDefaults()
	g := &Gate{
		cfg: cfg, log: cfg.Log, index: newIndex(cfg.Open, cfg.Log),
		callers: newCallers(cfg.Limits), strangers: ratelimit.New(ratelimit.Limits{Rate: rate.Inf}),
		queue: newQueue(), scans: make(chan struct{}, scansAtOnce), renewals: newRenewals(cfg.DB), present: newPresent(cfg.DB),
	}
	g.index.spread = g.pruneEvery()
	g.mirror = mirror.New(cfg.DB, mastercfg.Root, g.apply)
	g.server = grpc.NewServer(
		grpc.StatsHandler(counting{g}), grpc.InTapHandle(counting{g}.begin),
		grpc.Creds(credentialsOf{g}),
		grpc.MaxConcurrentStreams(nodeStreams), grpc.MaxRecvMsgSize(maxRequest), grpc.MaxHeaderListSize(maxHeader),
		grpc.ConnectionTimeout(greetTime),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsApart, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingTimeout}),
		grpc.ReadBufferSize(0), grpc.WriteBufferSize(bufferSize), // TLS has its own read buffer
		grpc.UnaryInterceptor(g.onlyOffered), grpc.StreamInterceptor(g.onlyOfferedStreams), grpc.UnknownServiceHandler(notOffered),
	)
	pb.RegisterKVServer(g.server, &kvServer{g: g})
	pb.RegisterWatchServer(g.server, &watchServer{g: g})
	pb.RegisterLeaseServer(g.server, &leaseServer{g: g})
	pb.RegisterClusterServer(g.server, &clusterServer{g: g})
	return g
}

// apply processes a batch of changes of the store.
func (g *Gate) apply(b mirror.Batch) {
	if g.index.apply(b) {
		g.callers.expel(g.index.holdsKey)
	}
}

// Run follows the store and serves the connections that Take receives, until ctx ends. It starts with the first
// connection: without nodes, nothing is followed.
func (g *Gate) Run(ctx context.Context) {
	select {
	case <-g.queue.first:
	case <-ctx.Done():
		g.queue.close()
		g.queue.empty()
		return
	}
	var tasks sync.WaitGroup
	defer tasks.Wait()
	tasks.Go(func() { _ = g.mirror.Run(ctx) }) // its error only says that ctx has ended
	tasks.Go(func() { g.forget(ctx) })
	tasks.Go(func() { g.wakeStreams(ctx) })
	tasks.Go(func() {
		<-ctx.Done()
		g.queue.close()
		g.server.Stop()
	})
	if err := g.server.Serve(g.queue); err != nil && ctx.Err() == nil {
		g.log.WithError(err).Error("the gate for nodes is closed")
	}
	g.queue.empty()
	g.renewals.close()
}

// Connections returns the number of connections of nodes.
func (g *Gate) Connections() int { return g.callers.count() }

// Take accepts a connection whose TLS has negotiated HTTP/2. It does not block.
func (g *Gate) Take(conn net.Conn) { g.queue.put(conn) }

// forget drops tenants that nodes have not served for Linger, and finds out which watches continue for those that return
// until then.
func (g *Gate) forget(ctx context.Context) {
	tick := time.NewTicker(g.pruneEvery())
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.index.prune(time.Now().Add(-g.cfg.Linger))
			g.sight(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (g *Gate) pruneEvery() time.Duration { return g.cfg.Linger / 12 }

// inStep waits until the index has the state at a revision.
func (g *Gate) inStep(ctx context.Context, rev int64) error {
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	if err := g.mirror.WaitRevision(ctx, rev); err != nil {
		return unavailable("this netmaster has not heard of revision %d yet", rev)
	}
	return nil
}

// queue is a listener for connections that the daemon has accepted.
type queue struct {
	conns chan net.Conn
	first notify.Signal // sent with the first connection
	done  chan struct{}

	mu     sync.Mutex
	closed bool
}

func newQueue() *queue {
	return &queue{conns: make(chan net.Conn, waitingConnections), first: notify.New(), done: make(chan struct{})}
}

func (q *queue) put(conn net.Conn) {
	if !q.has(conn) {
		_ = conn.Close() // without an answer: the queue is full, or the gate is closed
	}
}

// has queues a connection, unless the queue is full or the gate is closed.
func (q *queue) has(conn net.Conn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	select {
	case q.conns <- conn:
		q.first.Send()
		return true
	default:
		return false
	}
}

// close closes the queue: no more connections are accepted.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.done)
	}
}

// empty closes the remaining connections of a closed queue.
func (q *queue) empty() {
	for {
		select {
		case conn := <-q.conns:
			_ = conn.Close()
		default:
			return
		}
	}
}

// Accept implements net.Listener.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.done:
		return nil, errors.New("the gate is closed")
	}
}

// Close implements net.Listener.
func (q *queue) Close() error {
	q.close()
	return nil
}

// Addr implements net.Listener.
func (q *queue) Addr() net.Addr { return &net.TCPAddr{} }

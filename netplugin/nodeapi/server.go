package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/contivmodel/hops"
	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/nameserver"
	"github.com/contiv/netplugin/netplugin/tracing"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fairlisten"
	"github.com/contiv/netplugin/utils/rootsocket"
)

// Limits of a connection. All requests are small and without a body.
const (
	readTimeout     = 5 * time.Second
	writeTimeout    = 30 * time.Second
	idleTimeout     = time.Minute
	reclaimTimeout  = 20 * time.Second
	countersTimeout = 5 * time.Second
	tunnelsTimeout  = 3 * time.Second
	shutdownTimeout = 3 * time.Second
	maxHeader       = 16 << 10
	maxConns        = 256 // and as many of the machine itself: others do not keep its probes out
	shareOf         = 8

	// Answers that grow with the cluster are made whole in memory. So many at a
	// time, and so many traces; one more request waits, and is refused in the end.
	bigAnswers    = 2
	bigAnswerWait = 5 * time.Second
	// A client that does not read such an answer is cut off, so that the next
	// one gets its turn.
	bigAnswerTimeout = 10 * time.Second
)

// Agent is what the routes show.
type Agent interface {
	Ready() error
	Inspect() agent.Inspection
	// Counters of the objects of a kind, or of one; see agent.Agent.
	Counters(ctx context.Context, kind pipeline.Kind, id string) (agent.Counters, error)
}

// Attachments are the endpoints as containers use them.
type Attachments interface {
	// User says who uses an endpoint; fault.NotFound if nobody does.
	User(epID string) (string, error)
	// Reclaim gives up an endpoint that nobody uses; fault.Conflict if somebody does.
	Reclaim(ctx context.Context, epID string) error
}

// Names are those that endpoints are told.
type Names interface {
	Records() map[string]nameserver.Records
	Stats() nameserver.Stats
	State() nameserver.State
}

// Config of a server.
type Config struct {
	Address     string // host:port to listen on
	Socket      string // at which root of the machine is served; "": none
	CtrlIP      string // shown as the node's address
	Agent       Agent
	Attachments Attachments
	Names       Names
	BGP         func() *mastercfg.NodeBgp // nil, as what it answers: the node is to be no router
	Host        func() string             // what is wrong with the host's own interfaces, "" if nothing is; nil: there are none
	Pods        func() string             // what keeps container runtimes from us, "" if nothing does; nil: others write their configuration
	// KubeProxy is where rules of Kubernetes' own proxy are on the node, "" if nowhere; nil: nobody looks.
	KubeProxy func(context.Context) (string, error)
	// Release is the version of the Open vSwitch that runs, Package that of its package on this machine, empty if there is none, and Replaced
	// whether that was installed after the one that runs began, as far as is known; nil: nobody looks.
	Release  func(context.Context) (string, error)
	Package  func() (string, error)
	Replaced func(context.Context) (bool, error)
	// Listeners are where others may give the switch orders; nil: nobody looks.
	Listeners func(context.Context) ([]drivers.Listener, error)
	// Refused is why the cluster does not know the node, though it answers; nil, as what it answers: it does, or nobody looks.
	Refused    func() error
	Metrics    prometheus.Gatherer
	Membership Membership // nil: the node is not to join a cluster, and serves in plain HTTP
	// Drops are what the switches have thrown away, by bridge and reason; nil: nobody counts.
	Drops func(context.Context) (map[string]map[string]drivers.Count, error)
	// Tunnels tells of the other nodes, by host, whether they answer by the tunnel; nil: nobody asks them.
	Tunnels func(context.Context) (map[string]bool, error)
	// Trace tells the way of a packet through a switch of the node; nil: there is none.
	Trace func(context.Context, tracing.Query) (hops.Hop, error)
	Log   *logrus.Entry
}

// Server is an address, and a socket for root of the machine, with the routes behind them.
type Server struct {
	listener net.Listener
	socket   *rootsocket.Listener // nil: there is none
	http     *http.Server
}

// Listen takes the address and the socket; a second server on one of them fails here, not later.
func Listen(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = logrus.WithField("component", "node-api")
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("node REST server: %w", err)
	}
	s := &Server{
		listener: secured{fairlisten.New(listener, fairlisten.Limits{Each: maxConns / shareOf, All: maxConns, Own: maxConns}), cfg.Membership},
		http: &http.Server{
			Handler: Handler(cfg), ReadTimeout: readTimeout, ReadHeaderTimeout: readTimeout,
			WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ConnContext: withConn,
		},
	}
	if cfg.Socket != "" {
		if s.socket, err = rootsocket.ListenOnly(cfg.Socket, maxConns, cfg.Log); err != nil {
			return nil, errors.Join(fmt.Errorf("node REST server: %w", err), listener.Close())
		}
	}
	return s, nil
}

// Serve answers until ctx is done; requests in progress may finish.
func (s *Server) Serve(ctx context.Context) error {
	listeners := []net.Listener{s.listener}
	if s.socket != nil {
		listeners = append(listeners, s.socket)
	}
	var serving errgroup.Group
	ended, end := context.WithCancelCause(ctx)
	defer end(nil)
	for _, l := range listeners {
		serving.Go(func() error {
			err := s.http.Serve(l)
			end(err)
			return err
		})
	}
	<-ended.Done()
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := s.http.Shutdown(stopping)
	if err != nil {
		err = s.http.Close() // a client that does not let go is cut off
	}
	if served := serving.Wait(); !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("node REST server: %w", served))
	}
	return err
}

// Handler returns the routes.
func Handler(cfg Config) http.Handler {
	h := handlers{Config: cfg, big: make(chan struct{}, bigAnswers), traces: make(chan struct{}, bigAnswers), origins: http.NewCrossOriginProtection()}
	r := mux.NewRouter()
	get := func(path string, serve http.HandlerFunc) {
		r.HandleFunc(path, serve).Methods(http.MethodGet, http.MethodHead)
	}
	get("/svcstats", h.limited(h.big, h.serviceStats))
	get("/inspect/driver", h.limited(h.big, h.inspectDriver))
	get("/inspect/counters", h.limited(h.big, h.inspectCounters))
	get("/inspect/bgp", h.limited(h.big, h.inspectBGP))
	get("/inspect/drops", h.inspectDrops)
	get("/inspect/tunnels", h.limited(h.traces, h.inspectTunnels))
	get("/inspect/trace", h.limited(h.traces, h.inspectTrace))
	get("/inspect/nameserver", h.limited(h.big, h.inspectNameserver))
	get("/inspect/endpoint/{epID}", h.inspectEndpoint)
	get("/healthz", h.alive)
	get("/readyz", h.ready)
	r.Handle("/metrics", promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{})).Methods(http.MethodGet)
	r.HandleFunc("/debug/reclaimEndpoint/{epID}", h.localOnly(h.reclaimEndpoint)).Methods(http.MethodDelete)
	return http.MaxBytesHandler(h.requireRole(r), 0)
}

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
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/nameserver"
	"github.com/contiv/netplugin/netplugin/tracing"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fairlisten"
	"github.com/contiv/netplugin/utils/logging"
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
	maxConns        = 256 // and as many for clients on the machine, so that others cannot block its probes
	shareOf         = 8

	// Answers that grow with the cluster are built in memory. This is the number of concurrent ones, and of
	// concurrent traces; further requests wait, and are refused after bigAnswerWait.
	bigAnswers    = 2
	bigAnswerWait = 5 * time.Second
	// A client that does not read such an answer is disconnected, so that the next one is served.
	bigAnswerTimeout = 10 * time.Second
)

// Agent is the state that the routes show.
type Agent interface {
	Ready() error
	Inspect() agent.Inspection
	// Counters returns the counters of the objects of a kind, or of one; see agent.Agent.
	Counters(ctx context.Context, kind pipeline.Kind, id string) (agent.Counters, error)
}

// Attachments are the endpoints that containers use.
type Attachments interface {
	// User returns the container that uses an endpoint; fault.NotFound if none does.
	User(epID string) (string, error)
	// Reclaim releases an unused endpoint; fault.Conflict if a container uses it.
	Reclaim(ctx context.Context, epID string) error
}

// Names is the state of the name server.
type Names interface {
	Records() map[string]nameserver.Records
	Stats() nameserver.Stats
	State() nameserver.State
}

// Config of a server.
type Config struct {
	Address     string // host:port to listen on
	Socket      string // unix socket for root on the machine; "": none
	CtrlIP      string // shown as the node's address
	Agent       Agent
	Attachments Attachments
	Names       Names
	BGP         func() *mastercfg.NodeBgp // BGP state; nil or a nil result: not a BGP router
	Host        func() string             // problem of the host's own interfaces, "" if none; nil: it has no such interfaces
	Pods        []func() string           // each returns why containers are not attached on this node, "" if they are
	// KubeProxy returns where rules of kube-proxy are on the node, "" if nowhere; nil: not checked.
	KubeProxy func(context.Context) (string, error)
	// Release returns the version of the running Open vSwitch, Package that of the
	// package installed on this machine, empty if none, and Replaced whether that was
	// installed after the running one was started, as far as known; nil: not checked.
	Release  func(context.Context) (string, error)
	Package  func() (string, error)
	Replaced func(context.Context) (bool, error)
	// Listeners returns where other programs can control the switch; nil: not checked.
	Listeners func(context.Context) ([]drivers.Listener, error)
	// Refused returns why the cluster does not accept this node's registration, though it answers; a nil
	// result: it does; nil: not checked.
	Refused    func() error
	Metrics    prometheus.Gatherer
	Membership Membership // nil: the node does not join a cluster, and serves plain HTTP
	// Drops returns the packets that the switches have dropped, by bridge and reason; nil: not counted.
	Drops func(context.Context) (map[string]map[string]drivers.Count, error)
	// Tunnels returns which other nodes respond through the tunnel, by host; nil: not checked.
	Tunnels func(context.Context) (map[string]bool, error)
	// Trace traces a packet through a switch of the node; nil: there is none.
	Trace func(context.Context, tracing.Query) (hops.Hop, error)
	Log   *logrus.Entry
}

// Server serves the routes at an address, and at a socket for root on the machine.
type Server struct {
	listener net.Listener
	socket   *rootsocket.Listener // nil: none
	http     *http.Server
}

// Listen opens the address and the socket; it fails if another server has one of them.
func Listen(ctx context.Context, cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = logrus.WithField("component", "node-api")
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("node REST server: %w", err)
	}
	shared := fairlisten.New(listener, fairlisten.Limits{Each: maxConns / shareOf, All: maxConns, Own: maxConns})
	s := &Server{
		listener: secured{shared, cfg.Membership, ratelimit.NewHandshakes(cfg.Log)},
		http: &http.Server{
			Handler: routesOf(cfg), ReadTimeout: readTimeout, ReadHeaderTimeout: readTimeout,
			WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ConnContext: withConn,
			ErrorLog: logging.OfServer(cfg.Log),
		},
	}
	if cfg.Socket != "" {
		if s.socket, err = rootsocket.ListenOnly(cfg.Socket, maxConns, cfg.Log); err != nil {
			return nil, errors.Join(fmt.Errorf("node REST server: %w", err), listener.Close())
		}
	}
	return s, nil
}

// Serve serves until ctx is done; requests in progress may finish.
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
		err = s.http.Close() // disconnects clients that do not finish
	}
	if served := serving.Wait(); !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("node REST server: %w", served))
	}
	return err
}

// routesOf returns the routes.
func routesOf(cfg Config) http.Handler {
	h := handlers{
		Config: cfg, big: make(chan struct{}, bigAnswers), traces: make(chan struct{}, bigAnswers),
		origins: http.NewCrossOriginProtection(),
	}
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

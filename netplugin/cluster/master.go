package cluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/reconnect"
)

// Directory lists the netmasters; *objdb.DB is one.
type Directory interface {
	Holder(ctx context.Context, lock string) (string, error)
	Services(ctx context.Context, name string) ([]objdb.Service, error)
}

// Limits of a request to netmaster; zero means the default.
type Limits struct {
	Total  time.Duration // for all attempts together
	Try    time.Duration // for one attempt
	Lookup time.Duration // for the look-up of the leader in the store
	Store  time.Duration // how long the store may be unreachable
}

// Defaults of Limits.
const (
	totalTime  = 20 * time.Second
	tryTime    = 5 * time.Second
	lookupTime = 1500 * time.Millisecond
	storeTime  = 4 * time.Second
)

func (l Limits) withDefaults() Limits {
	for _, limit := range []struct {
		value *time.Duration
		or    time.Duration
	}{{&l.Total, totalTime}, {&l.Try, tryTime}, {&l.Lookup, lookupTime}, {&l.Store, storeTime}} {
		if *limit.value <= 0 {
			*limit.value = limit.or
		}
	}
	return l
}

// Master is a client of the leader of the netmasters.
//
// It asks first the netmaster that answered the last request: one that lost the leadership forwards. After a
// failure it looks the leader up before each attempt, since the usual cause is a change of the leader. If the
// leader in the store does not answer, it asks the other registered netmasters, which forward to the leader and
// may know a newer one. Every request is idempotent at netmaster, so an attempt with unknown outcome is repeated.
type Master struct {
	directory Directory
	limits    Limits
	http      *http.Client
	log       *logrus.Entry
	known     atomic.Pointer[string] // address of the netmaster that answered last; nil: none yet
	secured   func() *tls.Config     // if nil, or if it returns nil, plain HTTP is used
}

// NewMaster returns a client; it keeps connections to netmasters open.
func NewMaster(directory Directory, limits Limits, log *logrus.Entry) *Master {
	if log == nil {
		log = logrus.WithField("component", "master-client")
	}
	limits = limits.withDefaults()
	dialer := &net.Dialer{Timeout: limits.Try, KeepAlive: 10 * time.Second}
	m := &Master{directory: directory, limits: limits, log: log}
	m.http = &http.Client{
		Transport: reconnect.New(m.config, func(config *tls.Config) *http.Transport {
			return &http.Transport{
				DialContext:         dialer.DialContext,
				DialTLSContext:      (&tls.Dialer{NetDialer: dialer, Config: config}).DialContext,
				MaxIdleConnsPerHost: 64, // that many pods may start at once
				IdleConnTimeout:     90 * time.Second,
			}
		}),
		// Netmasters forward requests themselves; a redirect would turn a POST into a GET.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return m
}

// Secure makes the client use TLS; a node that has joined the cluster needs it. config is called for each request
// and returns the same value until the node has a new certificate; while it returns nil, plain HTTP is used.
// Secure must be called before the first request.
func (m *Master) Secure(config func() *tls.Config) { m.secured = config }

// config returns the present TLS configuration; nil: plain HTTP.
func (m *Master) config() *tls.Config {
	if m.secured == nil {
		return nil
	}
	return m.secured()
}

// scheme returns the present scheme of URLs.
func (m *Master) scheme() string {
	if m.config() != nil {
		return "https"
	}
	return mastercfg.Scheme
}

// Close closes idle connections.
func (m *Master) Close() { m.http.CloseIdleConnections() }

// CreateEndpoint requests an endpoint. It returns its record and the store revision as of which it is visible (0
// if netmaster did not report one).
func (m *Master) CreateEndpoint(ctx context.Context, req mastercfg.CreateEndpointRequest) (mastercfg.CfgEndpointState, int64, error) {
	var answer mastercfg.CreateEndpointResponse
	revision, err := m.post(ctx, mastercfg.CreateEndpointPath, req, &answer)
	return answer.EndpointConfig, revision, err
}

// DeleteEndpoint releases an endpoint.
func (m *Master) DeleteEndpoint(ctx context.Context, req mastercfg.DeleteEndpointRequest) error {
	_, err := m.post(ctx, mastercfg.DeleteEndpointPath, req, new(mastercfg.DeleteEndpointResponse))
	return err
}

// Reachable returns nil if a request would reach a netmaster that answers.
func (m *Master) Reachable(ctx context.Context) error {
	search := newSearch(m.directory, m.limits, "")
	address, err := search.next(ctx)
	if err != nil {
		return err
	}
	return m.probe(ctx, address)
}

// post tries until a netmaster has accepted or refused the request, the time limit is reached, or the store has
// been unreachable for too long.
func (m *Master) post(ctx context.Context, path string, request, answer any) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, m.limits.Total)
	defer cancel()
	var known string
	if last := m.known.Load(); last != nil {
		known = *last
	}
	search := newSearch(m.directory, m.limits, known)
	var last error
	for {
		address, err := search.next(ctx)
		if err == nil {
			var revision int64
			revision, err = m.ask(ctx, address, path, request, answer)
			if err == nil || !isTemporary(err) {
				m.known.Store(&address)
				return revision, err
			}
			m.known.Store(nil)
			search.exclude(address)
			m.log.WithError(err).WithFields(logrus.Fields{"path": path, "netmaster": address}).Debug("try failed")
			if ctx.Err() == nil { // else the error says only that the time limit was reached
				last = fmt.Errorf("netmaster at %s: %w", address, err)
			}
		} else if search.storeDownLong() {
			return 0, err
		}
		if last == nil {
			last = err
		}
		if err := search.endRound(ctx); err != nil {
			return 0, fault.New(fault.Unavailable, "no netmaster has answered %s in time: %w", path, last)
		}
	}
}

// ask sends a request to one netmaster. A connection uses the certificate from the time when it was opened, which may
// have expired while the machine was suspended: if it is refused, a new connection uses the present one.
func (m *Master) ask(ctx context.Context, address, path string, request, answer any) (revision int64, err error) {
	revision, err = m.try(ctx, address, path, request, answer)
	if fault.Is(err, fault.Unauthenticated) {
		m.http.CloseIdleConnections()
		revision, err = m.try(ctx, address, path, request, answer)
	}
	return revision, err
}

// isTemporary reports whether another attempt may succeed, with the same or another netmaster.
func isTemporary(err error) bool {
	return fault.Is(err, fault.Unavailable) || fault.Is(err, fault.NotLeader)
}

// address returns host and port of a registered netmaster.
func address(s objdb.Service) string { return net.JoinHostPort(s.HostAddr, strconv.Itoa(s.Port)) }

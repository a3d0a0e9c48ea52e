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

// Directory says where the netmasters are; *objdb.DB is one.
type Directory interface {
	Holder(ctx context.Context, lock string) (string, error)
	Services(ctx context.Context, name string) ([]objdb.Service, error)
}

// Limits of a request to netmaster; zero means the default.
type Limits struct {
	Total  time.Duration // for all tries together
	Try    time.Duration // for one try
	Lookup time.Duration // for asking the store who leads
	Store  time.Duration // how long the store may be away
}

// Their defaults.
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

// Master asks the leading netmaster, whoever that is.
//
// Who has answered the last request is asked first: a netmaster that does not
// lead any more forwards. When that fails, the leader is looked up before each
// try, because the usual reason for a try to fail is that it has changed. If the
// one in the store does not answer, the other registered netmasters are asked:
// they forward to the leader, and may know better. Every request is idempotent
// at netmaster, so a try whose outcome is unknown is simply made again.
type Master struct {
	directory Directory
	limits    Limits
	http      *http.Client
	log       *logrus.Entry
	known     atomic.Pointer[string] // who has answered last; nil: nobody yet
	secured   func() *tls.Config     // nil, or none returned: netmasters are asked in plain HTTP
}

// NewMaster makes a client; it holds connections to netmasters open.
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
				MaxIdleConnsPerHost: 64, // as many pods may start at once
				IdleConnTimeout:     90 * time.Second,
			}
		}),
		// Masters forward by themselves; a redirect would turn a POST into a GET.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return m
}

// Secure has netmasters asked over TLS, by a node that has joined the cluster. The
// configuration is asked for at each request, and is the same until the node has another
// certificate; while there is none, they are asked as before. It is called before the first request.
func (m *Master) Secure(config func() *tls.Config) { m.secured = config }

// config is how connections are secured now; nil: they are not.
func (m *Master) config() *tls.Config {
	if m.secured == nil {
		return nil
	}
	return m.secured()
}

// scheme is how netmasters are asked now.
func (m *Master) scheme() string {
	if m.config() != nil {
		return "https"
	}
	return mastercfg.Scheme
}

// Close lets go of idle connections.
func (m *Master) Close() { m.http.CloseIdleConnections() }

// CreateEndpoint asks for an endpoint and returns its record with the store
// revision at which it is visible (0 if netmaster did not say).
func (m *Master) CreateEndpoint(ctx context.Context, req mastercfg.CreateEndpointRequest) (mastercfg.CfgEndpointState, int64, error) {
	var answer mastercfg.CreateEndpointResponse
	revision, err := m.post(ctx, mastercfg.CreateEndpointPath, req, &answer)
	return answer.EndpointConfig, revision, err
}

// DeleteEndpoint gives an endpoint back.
func (m *Master) DeleteEndpoint(ctx context.Context, req mastercfg.DeleteEndpointRequest) error {
	_, err := m.post(ctx, mastercfg.DeleteEndpointPath, req, new(mastercfg.DeleteEndpointResponse))
	return err
}

// Reachable tells whether a request could find a netmaster that answers.
func (m *Master) Reachable(ctx context.Context) error {
	search := newSearch(m.directory, m.limits, "")
	address, err := search.next(ctx)
	if err != nil {
		return err
	}
	return m.probe(ctx, address)
}

// post tries until a netmaster has decided, the time is over or the store has
// been away for too long.
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
			revision, err = m.try(ctx, address, path, request, answer)
			if fault.Is(err, fault.Unauthenticated) {
				// A connection shows the certificate that there was at its beginning, which may
				// have ended while the machine slept; a new one shows that which there is now.
				m.http.CloseIdleConnections()
				revision, err = m.try(ctx, address, path, request, answer)
			}
			if err == nil || !isTemporary(err) {
				m.known.Store(&address)
				return revision, err
			}
			m.known.Store(nil)
			search.exclude(address)
			m.log.WithError(err).WithFields(logrus.Fields{"path": path, "netmaster": address}).Debug("try failed")
			if ctx.Err() == nil { // else it only says that the time is over
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

// isTemporary tells whether to try again, with the same or another netmaster.
func isTemporary(err error) bool {
	return fault.Is(err, fault.Unavailable) || fault.Is(err, fault.NotLeader)
}

// address joins what the registry says of a netmaster.
func address(s objdb.Service) string { return net.JoinHostPort(s.HostAddr, strconv.Itoa(s.Port)) }

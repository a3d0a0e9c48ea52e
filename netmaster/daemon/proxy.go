package daemon

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/logging"
	"github.com/contiv/netplugin/utils/reconnect"
)

// forwardedHeader marks a request that a netmaster has forwarded: it is not forwarded again. In an answer it
// means that the receiver did not lead, so that nothing happened and the sender may try elsewhere.
const forwardedHeader = mastercfg.ForwardedHeader

const (
	// patience is how long a request waits for a leader. A clean change of
	// leader takes less.
	patience = 2 * time.Second
	// retryPause is the pause between attempts.
	retryPause = 50 * time.Millisecond
)

var (
	// errNoLeader is the documented answer when no netmaster holds the lock.
	errNoLeader = fault.New(fault.NotLeader, "Leader not found")
	// errInPlainText is why a request with a secret, which was received over TLS, is not forwarded without TLS.
	errInPlainText = errors.New("this netmaster has no authorities to know the leader by, and passes tokens and passwords on over TLS only: ask the leader, or have this one join")
	// errLeads ends forwarding when this netmaster has become the leader.
	errLeads = errors.New("this netmaster leads")
)

// proxy forwards requests to the leader.
type proxy struct {
	leader       *lookup
	self         string
	became       func() http.Handler // own handler once this netmaster leads
	transport    *reconnect.Transport
	buffers      buffers
	certificates *certificates
	refusals     *auth.EarlyRefusals           // nil: they are not audited
	mode         func() mastercfg.SecurityMode // nil: not open
	log          *log.Logger
	silence      *silence
}

func newProxy(store holderReader, self string, certificates *certificates, entry *logrus.Entry) *proxy {
	dialer := &net.Dialer{Timeout: 2 * time.Second}
	return &proxy{leader: &lookup{store: store}, self: self, became: func() http.Handler { return nil },
		certificates: certificates, log: logging.OfServer(entry), silence: &silence{limit: silentFor, every: askedEvery, log: entry},
		transport: reconnect.New(certificates.dialer, func(config *tls.Config) *http.Transport {
			return &http.Transport{
				DialContext:           dialer.DialContext,
				DialTLSContext:        dialTLS(&tls.Dialer{NetDialer: dialer, Config: config}),
				ResponseHeaderTimeout: answerLimit, // as a client of the leader has
				MaxIdleConnsPerHost:   64,
				IdleConnTimeout:       30 * time.Second,
			}
		})}
}

// ServeHTTP forwards a request. While no leader answers and nothing can have happened yet, it retries for a
// short time, as a change of leader is short.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := api.Confidential(r); err != nil {
		p.refusals.Add(r, "", http.StatusForbidden, err)
		rest.WriteError(w, r, err)
		return
	}
	body, err := rest.ReadBody(r)
	if err != nil {
		rest.WriteError(w, r, err)
		return
	}
	forwarding := httputil.ReverseProxy{
		Rewrite:    p.rewrite,
		Transport:  &attempts{p, body, r.Header.Get(forwardedHeader) != ""},
		BufferPool: &p.buffers,
		ModifyResponse: func(resp *http.Response) error {
			w.Header().Del(contivmodel.RequestIDHeader) // else there were two
			resp.Header.Set(contivmodel.RequestIDHeader, r.Header.Get(contivmodel.RequestIDHeader))
			return nil
		},
		ErrorLog: p.log,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if own := p.became(); own != nil && errors.Is(err, errLeads) {
				r.Body = io.NopCloser(bytes.NewReader(body))
				own.ServeHTTP(w, r)
				return
			}
			rest.Identify(w, r) // informational answers of the leader remove headers
			p.answerNoLeader(w, r, err)
		},
	}
	forwarding.ServeHTTP(w, r)
}

// rewrite makes the request to the leader; attempts add its address.
func (p *proxy) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme, r.Out.URL.RawQuery = mastercfg.Scheme, r.In.URL.RawQuery
	r.SetXForwarded() // of the client alone: its own headers are not trusted
	r.Out.Header.Set(forwardedHeader, p.self)
	r.Out.Header.Set(contivmodel.RequestIDHeader, r.In.Header.Get(contivmodel.RequestIDHeader)) // also where the client calls it the connection's
	r.Out.Header.Set(identityHeader, formatIdentity(identity.From(r.In.Context())))
	if rest.IsPlain(r.In) {
		r.Out.Header.Set(plainHeader, "true")
	}
	r.Out.Header.Del("Origin") // checked here, against the host in the client's request
	r.Out.Header.Del("Sec-Fetch-Site")
}

// attempts send one request until the leader has answered it.
type attempts struct {
	*proxy
	body      []byte
	forwarded bool // by another netmaster already
}

// RoundTrip implements http.RoundTripper.
func (a *attempts) RoundTrip(r *http.Request) (*http.Response, error) {
	waiting, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	for {
		if a.became() != nil {
			return nil, errLeads
		}
		resp, again, err := a.try(r)
		if err == nil || !again {
			return resp, err
		}
		if errors.Is(err, errReplaced) {
			continue // there is another one
		}
		select {
		case <-waiting.Done():
			return nil, err
		case <-time.After(retryPause):
		}
	}
}

// try sends the request once; again reports whether another attempt is harmless and may help.
func (a *attempts) try(r *http.Request) (resp *http.Response, again bool, err error) {
	leader, err := a.leader.probable(r.Context())
	if err != nil {
		return nil, true, err
	}
	if leader == a.self || a.forwarded {
		a.leader.forget() // it is opening its term, or the lock outlives the term for a moment
		return nil, true, errNoLeader
	}
	out := r.Clone(r.Context())
	out.URL.Host, out.Host = leader, leader
	out.Body, out.ContentLength, out.TransferEncoding = io.NopCloser(bytes.NewReader(a.body)), int64(len(a.body)), nil
	switch {
	case a.certificates.hasAuthorities():
		out.URL.Scheme = "https"
	case rest.Private(r) && api.HasSecret(r, a.mode != nil && a.mode() == mastercfg.SecurityOpen):
		return nil, false, errInPlainText
	}
	out, answered := a.whileItLeads(out, leader)
	resp, err = a.transport.RoundTrip(out)
	if isPlain(err) && !rest.Private(r) {
		// The leader has no CAs, or another process answers at its address. Nothing was sent, and the request
		// has no secret that was protected by TLS so far.
		out.URL.Scheme = mastercfg.Scheme
		resp, err = a.transport.RoundTrip(out)
	}
	if answered() != nil {
		if err == nil {
			_ = resp.Body.Close() // which is not whole
		}
		resp, err = nil, errReplaced
	}
	if r.Context().Err() == nil || err == nil { // else the client has gone
		a.silence.note(leader, err)
	}
	if err != nil {
		a.leader.forget()
		return nil, isDialError(err) || r.Method == http.MethodGet || r.Method == http.MethodHead, err // a repeated read is harmless
	}
	if resp.Header.Get(forwardedHeader) != "" {
		a.leader.forget()
		return nil, true, errors.Join(errNoLeader, resp.Body.Close())
	}
	return resp, false, nil
}

// dialTLS dials so that a failed handshake counts as a failure to connect.
func dialTLS(d *tls.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if err != nil && !isDialError(err) {
			err = &net.OpError{Op: "dial", Net: network, Err: err}
		}
		return conn, err
	}
}

// isPlain reports whether an error means that the server serves plain HTTP only.
func isPlain(err error) bool {
	var other tls.RecordHeaderError
	return errors.As(err, &other)
}

// isDialError reports whether a request was not sent because the connection failed.
func isDialError(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// answerNoLeader answers that there is no leader, or that the leader does not answer.
func (p *proxy) answerNoLeader(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case r.Header.Get(forwardedHeader) != "":
		w.Header().Set(forwardedHeader, p.self)
		rest.WriteError(w, r, fault.New(fault.NotLeader, "netmaster %s does not lead", p.self))
	case errors.Is(err, errNoLeader) && !rest.WantsProblem(r):
		http.Error(w, errNoLeader.Error(), http.StatusInternalServerError)
	case fault.As(err) != nil:
		rest.WriteError(w, r, err) // no leader, or the store does not answer
	default:
		rest.WriteStatus(w, r, http.StatusBadGateway, fault.New(fault.Unavailable, "leader does not answer: %w", err))
	}
}

// buffers is the pool of buffers for copying answers.
type buffers struct{ free sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if buffer, ok := b.free.Get().(*[]byte); ok {
		return *buffer
	}
	return make([]byte, 32<<10)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) { b.free.Put(&buffer) }

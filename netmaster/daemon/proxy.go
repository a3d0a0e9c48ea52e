package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/contiv/netplugin/netmaster/api"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// forwardedHeader marks a request that a netmaster has forwarded: it is not
// forwarded again. On an answer it says that the receiver did not lead, so
// that nothing happened and the sender may try elsewhere.
const forwardedHeader = "Contiv-Forwarded"

const (
	// patience is how long a request waits for a leader. A clean change of
	// leader takes less.
	patience = 2 * time.Second
	// holderAge is how long the holder of the lock is remembered.
	holderAge = time.Second
	// retryPause is the time between tries.
	retryPause = 50 * time.Millisecond
	// answerTime is how long the leader may take to answer.
	answerTime = 20 * time.Second
)

// errNoLeader is the documented answer when nobody holds the lock.
var errNoLeader = fault.New(fault.NotLeader, "Leader not found")

// holderReader tells who holds a lock.
type holderReader interface {
	Holder(ctx context.Context, lock string) (string, error)
}

// proxy forwards requests to the leader.
type proxy struct {
	store     holderReader
	self      string
	became    func() http.Handler // own handler once this netmaster leads
	transport *http.Transport

	mu    sync.Mutex
	known string
	until time.Time
}

func newProxy(store holderReader, self string) *proxy {
	return &proxy{store: store, self: self, became: func() http.Handler { return nil },
		transport: &http.Transport{
			DialContext:           (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
			ResponseHeaderTimeout: answerTime,
			MaxIdleConnsPerHost:   64,
			IdleConnTimeout:       30 * time.Second,
		}}
}

// ServeHTTP forwards a request. While no leader answers and nothing can have
// happened yet, it tries again for a moment: a change of leader is short.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := api.ReadBody(r)
	if err != nil {
		api.WriteError(w, r, err)
		return
	}
	waiting, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	for {
		if own := p.became(); own != nil {
			r.Body = io.NopCloser(bytes.NewReader(body))
			own.ServeHTTP(w, r)
			return
		}
		done, err := p.try(w, r, body)
		if done {
			return
		}
		select {
		case <-waiting.Done():
			p.giveUp(w, r, err)
			return
		case <-time.After(retryPause):
		}
	}
}

// try forwards once; done tells that an answer was written.
func (p *proxy) try(w http.ResponseWriter, r *http.Request, body []byte) (done bool, err error) {
	leader, err := p.holder(r.Context())
	switch {
	case err != nil:
		return false, err
	case leader == p.self:
		p.forget() // moving in, or the lock outlives the term for a moment
		return false, errNoLeader
	case r.Header.Get(forwardedHeader) != "":
		p.forget()
		return false, errNoLeader
	}
	resp, err := p.transport.RoundTrip(p.outgoing(r, leader, body))
	if err != nil {
		p.forget()
		if neverSent(err) || r.Method == http.MethodGet || r.Method == http.MethodHead {
			return false, err // a read does no harm twice
		}
		p.giveUp(w, r, err)
		return true, nil
	}
	defer resp.Body.Close()
	if resp.Header.Get(forwardedHeader) != "" {
		p.forget()
		return false, errNoLeader
	}
	copyResponse(w, resp)
	return true, nil
}

// neverSent tells whether a failure is one to connect.
func neverSent(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// outgoing is the request to the leader.
func (p *proxy) outgoing(r *http.Request, leader string, body []byte) *http.Request {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host = "http", leader
	out.RequestURI, out.Host = "", leader
	for _, hop := range []string{"Connection", "Keep-Alive", "Upgrade", "Te", "Trailer", "Transfer-Encoding",
		"Origin", "Sec-Fetch-Site"} { // checked here, by the address the client has
		out.Header.Del(hop)
	}
	out.Header.Set(forwardedHeader, p.self)
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		out.Header.Add("X-Forwarded-For", host)
	}
	out.Body, out.ContentLength, out.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	return out
}

func copyResponse(w http.ResponseWriter, resp *http.Response) {
	for name, values := range resp.Header {
		if name != "Connection" && name != "Keep-Alive" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(resp.StatusCode)
	if resp.Header.Get("Content-Type") != api.StreamType {
		_, _ = io.Copy(w, resp.Body) // an error means that one side is gone
		return
	}
	passOn(w, resp.Body)
}

// passOn copies a stream piece by piece as it comes, until one side ends it.
func passOn(w http.ResponseWriter, from io.Reader) {
	control := http.NewResponseController(w)
	piece := make([]byte, 32<<10)
	for n, err := 0, error(nil); ; n, err = from.Read(piece) {
		if _, failed := w.Write(piece[:n]); failed != nil || control.Flush() != nil || err != nil {
			return
		}
	}
}

// giveUp answers that there is no leader, or that it does not answer.
func (p *proxy) giveUp(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case r.Header.Get(forwardedHeader) != "":
		w.Header().Set(forwardedHeader, p.self)
		api.WriteError(w, r, fault.New(fault.NotLeader, "netmaster %s does not lead", p.self))
	case errors.Is(err, errNoLeader) && !api.WantsProblem(r):
		http.Error(w, errNoLeader.Error(), http.StatusInternalServerError)
	case errors.Is(err, errNoLeader):
		api.WriteError(w, r, err)
	case fault.As(err) != nil:
		api.WriteError(w, r, err) // of the store
	default:
		api.WriteStatus(w, r, http.StatusBadGateway, fault.New(fault.Unavailable, "leader does not answer: %w", err))
	}
}

// holder is the address of the leader, as read at most holderAge ago.
func (p *proxy) holder(ctx context.Context) (string, error) {
	p.mu.Lock()
	known, until := p.known, p.until
	p.mu.Unlock()
	if known != "" && time.Now().Before(until) {
		return known, nil
	}
	holder, err := p.store.Holder(ctx, mastercfg.LeaderLock)
	if fault.Is(err, fault.NotFound) {
		return "", errNoLeader
	}
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	p.known, p.until = holder, time.Now().Add(holderAge)
	p.mu.Unlock()
	return holder, nil
}

func (p *proxy) forget() {
	p.mu.Lock()
	p.known = ""
	p.mu.Unlock()
}

// Package reconnect makes HTTP clients leave connections that were opened with an outdated TLS configuration.
//
// A certificate is presented when a connection is opened, and verified again with each request on it. A client
// with a renewed certificate, or with one of another CA, therefore needs new connections: the old ones get no new
// requests, and are closed after the requests in progress. No request is refused because its certificate has
// expired, as long as certificates are renewed earlier than requests last.
package reconnect

import (
	"crypto/tls"
	"net/http"
	"sync"
)

// Transport is an http.RoundTripper.
type Transport struct {
	config func() *tls.Config
	begin  func(*tls.Config) *http.Transport

	mu      sync.Mutex
	with    *tls.Config // of the present transport
	present *http.Transport
}

// New returns a transport. config returns the same value, which may be nil, as long as nothing has changed. begin
// creates the transport for connections with a configuration.
func New(config func() *tls.Config, begin func(*tls.Config) *http.Transport) *Transport {
	return &Transport{config: config, begin: begin}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.now().RoundTrip(r)
}

// CloseIdleConnections closes the idle connections.
func (t *Transport) CloseIdleConnections() { t.now().CloseIdleConnections() }

// now returns the transport for new requests.
func (t *Transport) now() *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	if with := t.config(); t.present == nil || with != t.with {
		if t.present != nil {
			// Those in use are closed when their requests end, since this transport gets no new ones.
			t.present.CloseIdleConnections()
		}
		t.with, t.present = with, t.begin(with)
	}
	return t.present
}

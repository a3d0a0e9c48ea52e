// Package reconnect has HTTP clients leave connections that were begun with another TLS
// configuration than the present one.
//
// A certificate is presented at the beginning of a connection, and judged again with each request on
// it. A client with a renewed certificate, or with one of another authority, needs new
// connections then: the old ones are not used for new requests, and end with the
// requests that are on them. No request is refused for a certificate that has expired meanwhile, as
// long as certificates are renewed earlier than requests last.
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
	with    *tls.Config // of the present one
	present *http.Transport
}

// New makes a transport. config returns the same configuration as long as nothing has changed; nil
// is one, too. begin makes the transport for connections with one of them.
func New(config func() *tls.Config, begin func(*tls.Config) *http.Transport) *Transport {
	return &Transport{config: config, begin: begin}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.now().RoundTrip(r)
}

// CloseIdleConnections ends the connections that nobody uses.
func (t *Transport) CloseIdleConnections() { t.now().CloseIdleConnections() }

// now is the transport for new requests.
func (t *Transport) now() *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	if with := t.config(); t.present == nil || with != t.with {
		if t.present != nil {
			// Those that are in use are closed when they are not any more, for nobody asks for
			// another one.
			t.present.CloseIdleConnections()
		}
		t.with, t.present = with, t.begin(with)
	}
	return t.present
}

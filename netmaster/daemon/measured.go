package daemon

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Each netmaster serves its own metrics, but the leader authorizes: each request for metrics is authorized by a
// request to the leader. Metrics are needed most while no leader answers. Then an enforced cluster serves them to
// clients that were authorized recently, a permissive one to all. In an open cluster the leader is not asked.

const (
	admittedFor = time.Hour // without a leader
	admittedMax = 256       // cached clients
)

// measured serves metrics to authorized clients.
type measured struct {
	ask     http.Handler // answers api.MetricsPath with success to authorized clients
	metrics http.Handler
	mode    func() mastercfg.SecurityMode // empty while unknown
	now     func() time.Time

	mu       sync.Mutex
	admitted map[[sha256.Size]byte]time.Time // by credentials (shownBy)
}

func newMeasured(ask, metrics http.Handler, mode func() mastercfg.SecurityMode) *measured {
	return &measured{ask: ask, metrics: metrics, mode: mode, now: time.Now, admitted: map[[sha256.Size]byte]time.Time{}}
}

// ServeHTTP implements http.Handler.
func (m *measured) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mode := m.mode()
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		m.ask.ServeHTTP(w, r)
		return
	case mode == mastercfg.SecurityOpen:
		m.metrics.ServeHTTP(w, r)
		return
	}
	shown := shownBy(r)
	said := &verdict{header: http.Header{}}
	m.ask.ServeHTTP(said, rest.AskingExactly(r)) // a refusal for too many requests is the leader's, too
	switch {
	case said.code/100 == 2:
		if mode == mastercfg.SecurityEnforced { // others admit clients without the right
			m.remember(shown)
		}
	case said.code == http.StatusUnauthorized || said.code == http.StatusForbidden:
		m.forget(shown)
		said.writeTo(w)
		return
	case said.code < 500 || mode != mastercfg.SecurityPermissive && !m.remembers(shown):
		said.writeTo(w)
		return
	}
	if r.Header.Get(forwardedHeader) != "" { // another netmaster asks, which serves its own metrics
		w.WriteHeader(http.StatusNoContent)
		return
	}
	m.metrics.ServeHTTP(w, r)
}

// shownBy returns a hash of a request's credentials.
func shownBy(r *http.Request) [sha256.Size]byte {
	who := identity.From(r.Context())
	parts := append([]string{who.String(), who.KeyHash}, r.Header.Values("X-Auth-Token")...)
	return sha256.Sum256([]byte(strings.Join(append(parts, r.Header.Values("Authorization")...), "\n")))
}

func (m *measured) remember(shown [sha256.Size]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.admitted) >= admittedMax {
		clear(m.admitted)
	}
	m.admitted[shown] = m.now()
}

func (m *measured) forget(shown [sha256.Size]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.admitted, shown)
}

func (m *measured) remembers(shown [sha256.Size]byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, there := m.admitted[shown]
	return there && m.now().Sub(at) < admittedFor
}

// verdict buffers the leader's answer. It is forwarded if it is a refusal, which is short.
type verdict struct {
	header http.Header
	code   int
	body   []byte
}

const maxVerdict = 4 << 10

// Header implements http.ResponseWriter.
func (v *verdict) Header() http.Header { return v.header }

// WriteHeader implements http.ResponseWriter.
func (v *verdict) WriteHeader(code int) {
	if v.code == 0 {
		v.code = code
	}
}

// Write implements http.ResponseWriter.
func (v *verdict) Write(p []byte) (int, error) {
	v.WriteHeader(http.StatusOK)
	v.body = append(v.body, p[:min(len(p), maxVerdict-len(v.body))]...)
	return len(p), nil
}

func (v *verdict) writeTo(w http.ResponseWriter) {
	for name, values := range v.header {
		if name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(v.code)
	_, _ = w.Write(v.body) // an error means that the client is gone
}

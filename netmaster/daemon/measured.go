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

// Each netmaster shows its own metrics, but who may see them is known to the leader: it is
// asked for each request, in the way of every other one. While no leader answers, which is
// when metrics are wanted, they are shown as before: in an enforced cluster to whoever was let
// in lately, in a permissive one to everybody. In an open cluster nobody is asked at all.

const (
	admittedFor = time.Hour // without a leader
	admittedMax = 256       // so many are remembered
)

// measured shows metrics to those who may see them.
type measured struct {
	ask     http.Handler // answers api.MetricsPath with success to those
	metrics http.Handler
	mode    func() mastercfg.SecurityMode // empty while it is not known
	now     func() time.Time

	mu       sync.Mutex
	admitted map[[sha256.Size]byte]time.Time // by what was shown
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
	m.ask.ServeHTTP(said, rest.AskingExactly(r)) // who asks too often has a leader
	switch {
	case said.code/100 == 2:
		m.remember(shown)
	case said.code == http.StatusUnauthorized || said.code == http.StatusForbidden:
		m.forget(shown)
		said.writeTo(w)
		return
	case said.code < 500 || mode != mastercfg.SecurityPermissive && !m.remembers(shown):
		said.writeTo(w)
		return
	}
	if r.Header.Get(forwardedHeader) != "" { // another netmaster asks, which has its own
		w.WriteHeader(http.StatusNoContent)
		return
	}
	m.metrics.ServeHTTP(w, r)
}

// shownBy is what a request shows of who it comes from, without the secrets in it.
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

// verdict keeps an answer that may be passed on: a refusal is short.
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

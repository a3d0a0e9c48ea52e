package daemon

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/contiv/netplugin/netmaster/api"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// front answers every request: health and metrics itself, others according to its role.
type front struct {
	own   map[string]http.Handler // by path
	rest  http.Handler
	debug http.Handler // below debugPath; nil: nothing
	proxy *proxy
	mode  func() mastercfg.SecurityMode
	// reached reports whether the other members of the store reach the one in this process.
	reached func() bool
	// mayWrite asks the store whether the user of this netmaster may write, with an error of kind Denied if not, and
	// reports whether it was asked.
	mayWrite func(ctx context.Context) (asked bool, err error)
	readOnly atomic.Pointer[error]        // its last refusal; nil: it was none
	leader   atomic.Pointer[http.Handler] // nil while following
}

func newFront(p *proxy, m *metrics, mode func() mastercfg.SecurityMode) *front {
	f := &front{proxy: p, mode: mode, reached: func() bool { return true }, mayWrite: func(context.Context) (bool, error) { return false, nil }}
	p.became = f.leading
	f.own = map[string]http.Handler{
		"/healthz":      http.HandlerFunc(healthz),
		"/readyz":       http.HandlerFunc(f.readyz),
		api.MetricsPath: newMeasured(http.HandlerFunc(f.byRole), m.handler(), mode),
	}
	f.rest = m.counted(http.HandlerFunc(f.byRole))
	m.gauge("netmaster_leader", "1 while this netmaster leads.", func() float64 {
		if f.leading() != nil {
			return 1
		}
		return 0
	})
	return f
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if own, ok := f.own[r.URL.Path]; ok {
		own.ServeHTTP(w, r)
		return
	}
	if f.debug != nil && strings.HasPrefix(r.URL.Path, debugPath) {
		f.debug.ServeHTTP(w, r)
		return
	}
	f.rest.ServeHTTP(w, r)
}

// healthz succeeds while the process answers at all.
func healthz(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }

// lead makes this netmaster answer requests itself.
func (f *front) lead(served http.Handler) { f.leader.Store(&served) }

// follow makes it forward requests.
func (f *front) follow() {
	f.leader.Store(nil)
	f.readOnly.Store(nil)
}

// leading returns the handler of the present term; nil while following.
func (f *front) leading() http.Handler {
	if h := f.leader.Load(); h != nil {
		return *h
	}
	return nil
}

func (f *front) byRole(w http.ResponseWriter, r *http.Request) {
	if h := f.leading(); h != nil {
		h.ServeHTTP(w, r)
		return
	}
	f.proxy.ServeHTTP(w, r)
}

// readyz succeeds when requests are answered, by this netmaster or through it, and the next netmaster may be restarted.
func (f *front) readyz(w http.ResponseWriter, r *http.Request) {
	role, problem := f.readiness(r.Context())
	if problem != "" {
		http.Error(w, problem, http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte(role + "\n"))
}

// readiness returns the role of this netmaster, or why it is not ready.
func (f *front) readiness(ctx context.Context) (role, problem string) {
	role = "leader"
	holder, err := f.proxy.leader.address(ctx)
	refusal := f.readOnly.Load()
	switch leads := f.leading() != nil; {
	case leads && err != nil:
		return "", "leader, the store does not answer it: " + err.Error()
	case leads && refusal != nil:
		return "", "leader, the store takes no changes from it: " + (*refusal).Error()
	case leads:
	case errors.Is(err, errNoLeader) && refusal != nil:
		return "", "follower, the store takes no changes from it: " + (*refusal).Error()
	case err != nil:
		return "", "follower, leader unknown: " + err.Error()
	case !leads && holder == f.proxy.self: // as after a restore, until the lease of the backup has ended
		return "", "follower, the store names this netmaster as the leader, which it is not, or not yet"
	case !leads && f.mode() == "":
		return "", "follower, mode of security unknown"
	case !leads:
		if err := f.proxy.silence.of(holder); err != nil {
			return "", "follower of " + holder + ": " + err.Error()
		}
		role = "follower of " + holder
	}
	if !f.reached() {
		return "", "the other members of the store do not know yet where this one is"
	}
	return role, ""
}

package daemon

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/utils/fault"
)

// Each netmaster, a follower too, applies the security mode to its own connections: whether plain HTTP is
// served. The leader applies it to authentication and rights.

// mode is this netmaster's copy of the cluster's security mode.
type mode struct {
	log     *logrus.Entry
	known   atomic.Value // mastercfg.SecurityMode; unset: unknown
	learned func()       // closes isKnown, once
	isKnown chan struct{}
}

func newMode(log *logrus.Entry) *mode {
	m := &mode{log: log, isKnown: make(chan struct{})}
	m.learned = sync.OnceFunc(func() { close(m.isKnown) })
	return m
}

// set is called when the mode was read or changed.
func (m *mode) set(is mastercfg.SecurityMode) {
	m.known.Store(is)
	m.learned()
}

// current returns the mode; empty while it is unknown.
func (m *mode) current() mastercfg.SecurityMode {
	is, _ := m.known.Load().(mastercfg.SecurityMode)
	return is
}

// awaitKnown returns the mode once it is known, which takes milliseconds after the start. It is empty if that
// takes longer than a request waits for a leader.
func (m *mode) awaitKnown(ctx context.Context) mastercfg.SecurityMode {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-m.isKnown:
	case <-ctx.Done():
	}
	return m.current()
}

// Run follows the security record until ctx ends. The last known mode stays while the store is down,
// or the record cannot be read.
func (m *mode) Run(ctx context.Context, db *objdb.DB) {
	only := func(key string) bool { return key == mastercfg.SecurityKey }
	mirror.NewPart(db, mastercfg.GlobalRoot, only, m.take).Follow(ctx)
}

func (m *mode) take(b mirror.Batch) {
	is := mastercfg.Security{Mode: mastercfg.SecurityOpen}
	if !b.Snapshot && len(b.Events) == 0 {
		return
	}
	for _, e := range b.Events {
		if e.Value == nil {
			continue
		}
		if err := json.Unmarshal(e.Value, &is); err != nil {
			m.log.WithError(err).Errorf("key %s cannot be read", mastercfg.SecurityKey)
			return
		}
	}
	m.set(is.Mode)
}

// learn reads the mode from a ledger, so that a leader knows it before it serves. A record that cannot be read
// is reported when the term begins.
func (m *mode) learn(opened *ledger.Ledger) error {
	return opened.View(func(r ledger.Reader) error {
		if is, err := access.ModeOf(r); err == nil {
			m.set(is)
		}
		return nil
	})
}

// plainHeader marks a forwarded request that was received over plain HTTP. It is trusted like identityHeader.
const plainHeader = "Contiv-Plain"

// requireTLS refuses requests over plain HTTP in an enforced cluster, and while the mode is unknown; in other
// clusters it marks them. On loopback, health is always served; if loopback names a role, all requests there are
// served with that role.
func (m *mode) requireTLS(next http.Handler, loopback string, refusals *auth.EarlyRefusals) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		here := rest.OfThisMachine(r)
		switch {
		case r.TLS != nil || identity.From(r.Context()).Kind == identity.Root:
		case (here || m.current() == "") && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz"):
		case here && loopback != "":
			r = r.WithContext(identity.With(r.Context(), identity.Identity{Kind: identity.Loopback, Name: loopback}))
		default:
			if err := m.plainRefusal(r); err != nil {
				answerPlainRefusal(w, r, err, refusals)
				return
			}
			r = rest.Plain(r)
		}
		next.ServeHTTP(w, r)
	})
}

// plainRefusal returns why a request over plain HTTP is not served; nil if it is. It waits until the mode is known.
func (m *mode) plainRefusal(r *http.Request) *fault.Error {
	switch m.awaitKnown(r.Context()) {
	case mastercfg.SecurityEnforced:
		return fault.New(fault.Denied, "plain HTTP is not served here: ask https://%s", localAddress(r))
	case "":
		return fault.New(fault.Unavailable, "this netmaster does not know yet whether plain HTTP is served: ask again in a moment, or https://%s", localAddress(r))
	}
	return nil
}

// answerPlainRefusal answers a refused request, and audits it if the cluster is enforced.
func answerPlainRefusal(w http.ResponseWriter, r *http.Request, why *fault.Error, refusals *auth.EarlyRefusals) {
	if why.Kind == fault.Unavailable {
		w.Header().Set("Retry-After", "1")
		rest.WriteStatus(w, r, http.StatusServiceUnavailable, why)
		return
	}
	refusals.Add(r, "", http.StatusForbidden, why)
	rest.WriteStatus(w, r, http.StatusForbidden, why)
}

// localAddress returns the local address of a client's connection.
func localAddress(r *http.Request) string {
	if r.Host != "" {
		return r.Host
	}
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		return conn.LocalAddr().String()
	}
	return "this netmaster"
}

// warnOpen logs a warning while the cluster is open, without authentication.
func (d *Daemon) warnOpen() error {
	if d.mode.current() == mastercfg.SecurityOpen {
		d.log.Warn("the cluster is open: whoever reaches a netmaster may do everything; netctl security init begins to close it")
	}
	return nil
}

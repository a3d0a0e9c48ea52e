package daemon

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
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

// What a mode of security means for connections is decided by each netmaster for its own, a
// follower too: it is that which a client talks to. What it means for who asks, the leader
// decides.

// mode is how far the cluster is closed, as this netmaster knows it.
type mode struct {
	log   *logrus.Entry
	known atomic.Value // mastercfg.SecurityMode; nothing: not known yet
}

// now is the mode; empty while it is not known. Then plain requests wait.
func (m *mode) now() mastercfg.SecurityMode {
	is, _ := m.known.Load().(mastercfg.SecurityMode)
	return is
}

// Run follows the record until ctx ends. What is known stays while the store is away, and
// while the record cannot be read.
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
	m.known.Store(is.Mode)
}

// learn takes the mode from a ledger, so that a leader knows it before it serves. One that cannot
// be read is reported when the term begins.
func (m *mode) learn(opened *ledger.Ledger) error {
	return opened.View(func(r ledger.Reader) error {
		if is, err := access.ModeOf(r); err == nil {
			m.known.Store(is)
		}
		return nil
	})
}

// plainHeader is where a netmaster that passes a request on says that it has come over plain
// HTTP. It is believed as identityHeader is.
const plainHeader = "Contiv-Plain"

// closes refuses what comes over plain HTTP in an enforced cluster, and while the mode is not known, and marks it in others.
// Who asks whether this netmaster is well is answered on its machine, and in the role of loopback, if
// there is one, everybody of the machine is served.
func closes(next http.Handler, mode func() mastercfg.SecurityMode, loopback string, refusals *auth.EarlyRefusals) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil || identity.From(r.Context()).Kind == identity.Root {
			next.ServeHTTP(w, r)
			return
		}
		here := rest.OfThisMachine(r)
		switch {
		case (here || mode() == "") && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz"):
		case here && loopback != "":
			r = r.WithContext(identity.With(r.Context(), identity.Identity{Kind: identity.Loopback, Name: loopback}))
		case mode() == mastercfg.SecurityEnforced:
			why := fault.New(fault.Denied, "plain HTTP is not served here: ask https://%s", askedAt(r))
			refusals.Add(r, "", http.StatusForbidden, why)
			rest.WriteStatus(w, r, http.StatusForbidden, why)
			return
		case mode() == "":
			w.Header().Set("Retry-After", "1")
			rest.WriteStatus(w, r, http.StatusServiceUnavailable, fault.New(fault.Unavailable, "this netmaster does not know yet whether plain HTTP is served: ask again in a moment, or https://%s", askedAt(r)))
			return
		default:
			r = rest.Plain(r)
		}
		next.ServeHTTP(w, r)
	})
}

// askedAt is the address that a client has asked.
func askedAt(r *http.Request) string {
	if r.Host != "" {
		return r.Host
	}
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		return conn.LocalAddr().String()
	}
	return "this netmaster"
}

// warnOpen says while the cluster is open that nobody is asked who he is.
func (d *Daemon) warnOpen() error {
	if d.mode.now() == mastercfg.SecurityOpen {
		d.log.Warn("the cluster is open: whoever reaches a netmaster may do everything; netctl security init begins to close it")
	}
	return nil
}

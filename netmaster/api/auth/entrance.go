package auth

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
)

// Config configures the entrance of a term.
type Config struct {
	View     func(func(ledger.Reader) error) error // of the state
	Now      func() time.Time
	Audit    *audit.Log // audit log; nil: none
	Foreseen *Foreseen  // counts of requests that an enforced cluster would have refused
	Rate     rate.Limit // requests per second of one client; 0: ClientRate, rate.Inf: no limit
}

// Entrance admits the requests of a term: each passes Enter,
// then Admit for its route and, if it asks for a change, Begin.
type Entrance struct {
	config  Config
	limits  ratelimit.Limits
	limiter *ratelimit.Limiter
}

// New returns the entrance of a term.
func New(config Config) *Entrance {
	limits := clientLimits(config.Rate)
	return &Entrance{config: config, limits: limits, limiter: ratelimit.New(limits)}
}

// Enter authenticates a request and puts its caller into the context; an open cluster has no callers.
func (e *Entrance) Enter(r *http.Request) (*http.Request, error) {
	var caller *Caller
	err := e.config.View(func(reader ledger.Reader) (err error) {
		caller, err = e.callerOf(r, reader)
		return err
	})
	if caller == nil || err != nil {
		return r, err
	}
	return r.WithContext(context.WithValue(identity.With(r.Context(), caller.Who), callerKey{}, caller)), nil
}

// callerOf returns the caller of a request; nil in an open cluster. If its credentials are refused, the refusal is the
// caller's flaw, and it has no rights.
func (e *Entrance) callerOf(r *http.Request, reader ledger.Reader) (*Caller, error) {
	mode, err := access.ModeOf(reader)
	if err != nil || mode == mastercfg.SecurityOpen {
		return nil, err
	}
	caller := &Caller{mode: mode, source: rest.SourceOf(r), via: rest.Forwarder(r), now: e.config.Now, notes: notes{id: rand.Text()}}
	if caller.Who, err = shownBy(r, reader); err == nil && (caller.Who.Kind == identity.User || caller.Who.Kind == identity.Token) {
		// Expired credentials prove nothing, also in a permissive cluster and for the limits of a client.
		if _, err = access.Rights(reader, caller.Who, caller.now()); err != nil {
			caller.Who = identity.Identity{}
		}
	}
	if err == nil {
		return caller, nil
	}
	var isDenial bool
	if caller.flaw, isDenial = rest.Denied(err); !isDenial {
		return nil, err
	}
	return caller, nil
}

// Admit refuses a request whose client lacks the right that the route needs, or exceeds a limit. request is its
// name in reports. Later checks use the same right.
func (e *Entrance) Admit(ctx context.Context, needs Need, request string) error {
	caller := CallerFrom(ctx)
	if caller == nil {
		return nil
	}
	caller.need, caller.routed, caller.request = needs, true, request
	if err := e.waitForLimits(ctx, caller); err != nil {
		return err
	}
	return e.config.View(caller.Still)
}

// Noting returns a writer that records the answer; done writes it to the audit log, if it is to be audited.
func (e *Entrance) Noting(w http.ResponseWriter, r *http.Request) (noting http.ResponseWriter, done func()) {
	caller := CallerFrom(r.Context())
	if caller == nil {
		return w, func() {}
	}
	said := &answered{ResponseWriter: w}
	return said, func() { e.audit(caller, r, said.status, said.revision()) }
}

// NoteOpen audits a request to an open cluster, which authenticates no client: the one that closes it.
func (e *Entrance) NoteOpen(r *http.Request, area rights.Area, status int, revision int64) {
	caller := &Caller{Who: identity.From(r.Context()), routed: true, need: Need{Verb: rights.Change, Area: area}}
	e.audit(caller, r, status, revision)
}

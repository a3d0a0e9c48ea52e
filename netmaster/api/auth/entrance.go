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

// Config is what the entrance of a term needs.
type Config struct {
	View     func(func(ledger.Reader) error) error // of the state
	Now      func() time.Time
	Audit    *audit.Log // who has changed what; nil: nothing is written down
	Foreseen *Foreseen  // what an enforced cluster would have refused
	Rate     rate.Limit // requests a second of one client; 0: ClientRate, rate.Inf: any number
}

// Entrance is where the requests of a term enter: each with Enter, is admitted to its route with Admit, and, if it is
// to change something, begins with Begin.
type Entrance struct {
	config  Config
	limits  ratelimit.Limits
	limiter *ratelimit.Limiter
}

// New makes the entrance of a term.
func New(config Config) *Entrance {
	limits := clientLimits(config.Rate)
	return &Entrance{config: config, limits: limits, limiter: ratelimit.New(limits)}
}

// Enter authenticates a request and puts its caller into its context; none, if the cluster is open.
func (e *Entrance) Enter(r *http.Request) (*http.Request, error) {
	var q *Caller
	err := e.config.View(func(reader ledger.Reader) error {
		mode, err := access.ModeOf(reader)
		if err != nil || mode == mastercfg.SecurityOpen {
			return err
		}
		q = &Caller{mode: mode, source: rest.SourceOf(r), id: rand.Text(), now: e.config.Now}
		if q.Who, err = shownBy(r, reader); err == nil && (q.Who.Kind == identity.User || q.Who.Kind == identity.Token) {
			// What has expired proves nothing any more, also in a permissive cluster and for the share of requests.
			if _, err = access.Rights(reader, q.Who, q.now()); err != nil {
				q.Who = identity.Identity{}
			}
		}
		if err != nil {
			d, isDenial := rest.Denied(err)
			if !isDenial {
				return err
			}
			q.flaw = d
		}
		return nil
	})
	if q == nil || err != nil {
		return r, err
	}
	return r.WithContext(context.WithValue(identity.With(r.Context(), q.Who), callerKey{}, q)), nil
}

// Admit refuses a request that may not have what its route needs, or is beyond what its client may have. request is how reports
// name it. What follows is judged by the same need.
func (e *Entrance) Admit(ctx context.Context, needs Need, request string) error {
	q := CallerFrom(ctx)
	if q == nil {
		return nil
	}
	q.need, q.routed, q.request = needs, true, request
	if err := e.waitForLimits(ctx, q); err != nil {
		return err
	}
	return e.config.View(q.Still)
}

// Noting has the answer to a request written down when done is called, if it is one to write down.
func (e *Entrance) Noting(w http.ResponseWriter, r *http.Request) (noting http.ResponseWriter, done func()) {
	q := CallerFrom(r.Context())
	if q == nil {
		return w, func() {}
	}
	said := &answered{ResponseWriter: w}
	return said, func() { e.audit(q, r, said.status, said.revision()) }
}

// NoteOpen audits a request to an open cluster, where nobody is authenticated: the one that closes it.
func (e *Entrance) NoteOpen(r *http.Request, area rights.Area, status int, revision int64) {
	q := &Caller{Who: identity.From(r.Context()), routed: true, need: Need{Verb: rights.Change, Area: area}}
	e.audit(q, r, status, revision)
}

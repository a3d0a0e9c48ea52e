package auth

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/ratelimit"
)

// EarlyRefusals audits requests that a netmaster refuses before it knows who leads. A stranger without any key can send thousands of
// them in a second, so of each address one in a while is written down, as of unauthenticated requests that routes refuse.
type EarlyRefusals struct {
	log  *audit.Log
	told *ratelimit.Limiter
	now  func() time.Time
}

// NewEarlyRefusals writes them into a log; nil: nowhere.
func NewEarlyRefusals(log *audit.Log) *EarlyRefusals {
	return &EarlyRefusals{log: log, told: ratelimit.New(ratelimit.Limits{Rate: rate.Inf}), now: time.Now}
}

// Add writes down that a request was refused with a status. shown is what it has shown that counts for nothing; empty: see who
// it comes from. One that is nil writes nothing.
func (e *EarlyRefusals) Add(r *http.Request, shown string, status int, reason error) {
	if e == nil {
		return
	}
	now, source, who := e.now().UTC(), rest.SourceOf(r), identity.From(r.Context())
	untold, worth := e.told.Tell(accounts.Source(source), ratelimit.Excess, now)
	if !worth {
		return
	}
	e.log.Add(audit.Entry{Time: now, Request: rand.Text(), Told: rest.RequestID(r), Principal: who.String(), How: cmp.Or(shown, evidenceOf(who)), Source: source,
		Verb: r.Method, Key: r.URL.Path, Decision: audit.Denied, Reason: reason.Error(), Status: status, Untold: untold})
}

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

// EarlyRefusals audits requests that a netmaster refuses before it knows the leader. A client without
// credentials can send thousands of them a second, so only some of each address are written, as for
// unauthenticated requests that routes refuse.
type EarlyRefusals struct {
	log  *audit.Log
	told *ratelimit.Limiter
	now  func() time.Time
}

// NewEarlyRefusals returns one that writes to a log; nil: it writes nothing.
func NewEarlyRefusals(log *audit.Log) *EarlyRefusals {
	return &EarlyRefusals{log: log, told: ratelimit.New(ratelimit.Limits{Rate: rate.Inf}), now: time.Now}
}

// Add records that a request was refused with a status. shown is the invalid identity that it has presented;
// empty: that of the connection. A nil receiver writes nothing.
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

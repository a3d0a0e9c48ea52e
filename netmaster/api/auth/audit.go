package auth

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/utils/fault"
)

// answered records the status of an answer.
type answered struct {
	http.ResponseWriter
	status int
}

func (a *answered) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answered) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(p)
}

// revision returns the revision of the change that the answer reports; 0: none.
func (a *answered) revision() int64 {
	rev, _ := strconv.ParseInt(a.Header().Get(mastercfg.RevisionHeader), 10, 64) // 0 without
	return rev
}

// Unwrap lets http.ResponseController find the connection.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// notes are taken about a request while it is served, for the audit log and for the report of
// what an enforced cluster would refuse.
type notes struct {
	id      string   // of the request in the audit log
	about   string   // subject of the request that its path does not name
	tenant  string   // tenant of the request, if its route does not name it
	objects []string // objects of the request, and what was done with them
	proven  bool     // it has presented a secret, such as that of a join token or a key, though no identity follows from that

	begun   bool                   // the audit log has a line about its begin
	planned atomic.Bool            // a plan of it was ready to commit: it may have been executed, whatever the answer is
	exceeds error                  // the request exceeds a limit of its client; nil: it does not
	failed  error                  // error of a refused request
	refused atomic.Pointer[string] // in a permissive cluster: why an enforced one would have refused it
	exposed atomic.Pointer[string] // description of the secret that it had in plain text
}

// refusals are the statuses of requests that are not authenticated, or not authorized.
var refusals = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}

// audit writes a line about an answered request if it asked for a change, was refused because of its client, or
// would have been refused in an enforced cluster. Requests without a route, or with a method that the route
// does not have, are not audited.
func (e *Entrance) audit(caller *Caller, r *http.Request, status int, revision int64) {
	if !caller.routed || status == http.StatusMethodNotAllowed {
		return
	}
	entry := e.entry(caller, r)
	entry.Decision, entry.Status = audit.Allowed, status
	if revision > 0 {
		entry.Revision = strconv.FormatInt(revision, 10)
	}
	switch why := caller.enforcedRefusal(r); {
	case caller.exceeds != nil:
		entry.Decision, entry.Reason = audit.Denied, caller.exceeds.Error()
	case caller.denied(status):
		entry.Decision, entry.Reason = audit.Denied, caller.refusalText()
	case why != "":
		entry.Decision, entry.Reason = audit.WouldRefuse, why
		e.config.Foreseen.add(foreseenKey{entry.Principal, entry.Source, caller.request}, why, entry.Time)
	case !changes(r):
		return
	}
	if kind, often := caller.mayBeSampled(r, status, entry.Decision); often {
		client, _ := caller.client()
		left, worth := e.limiter.Tell(client, kind, entry.Time)
		if !worth {
			return
		}
		entry.Untold = left
	}
	if !caller.planned.Load() { // no object has changed
		entry = entry.Brief()
	}
	e.config.Audit.Add(entry)
}

// denied reports whether a request failed because of its client. Only clients that ask for proper status codes
// see that in the status. A node with a valid join token that cannot join because of a conflict with others is
// denied as well; not if the cluster is full, or the state is being changed.
func (c *Caller) denied(status int) bool {
	if c.failed != nil {
		status = rest.StatusOf(c.failed)
	}
	switch {
	case c.flaw != nil && errors.Is(c.failed, c.flaw): // two identities in one request have the status of a bad request
		return true
	case c.proven:
		return slices.Contains(refusals, status) || fault.Is(c.failed, fault.Conflict)
	}
	return slices.Contains(refusals, status)
}

// refusalText returns the reason of a denial and, if the answer
// does not have it, what is wrong with the request's credentials.
func (c *Caller) refusalText() string {
	var text, flaw string
	if c.failed != nil {
		text, _, _ = strings.Cut(c.failed.Error(), "\n")
	}
	if c.flaw != nil {
		flaw = c.flaw.Error()
	}
	switch {
	case text == "" || strings.Contains(flaw, text):
		return flaw
	case strings.Contains(text, flaw):
		return text
	}
	return text + "; " + flaw
}

// mayBeSampled reports whether requests of this kind may be so frequent that only some are written to the audit
// log. Requests that may have been executed in part are always written.
func (c *Caller) mayBeSampled(r *http.Request, status int, decision audit.Decision) (kind ratelimit.Telling, often bool) {
	_, bounded := c.client()
	switch {
	case c.exceeds != nil || c.isUnauthenticatedFlood(status):
		return ratelimit.Excess, true
	case bounded && (c.Who.Kind != identity.Nobody || c.proven) && decision == audit.Denied && !c.begun && !c.planned.Load():
		return ratelimit.Refusal, true
	case bounded && decision == audit.WouldRefuse && !changes(r): // the report counts all of them
		return ratelimit.Forecast, true
	}
	return 0, false
}

// isUnauthenticatedFlood reports whether the request is of a kind that may arrive thousands of times a second:
// refused, without valid credentials, in a cluster that requires them. Only some of these are written to the
// audit log, so that they do not push lines about changes out of the files. Logins are limited elsewhere, and a
// request whose outcome is unknown needs a token or a key.
func (c *Caller) isUnauthenticatedFlood(status int) bool {
	return !c.limitsOnlyNoted() && c.Who.Kind == identity.Nobody && c.about == "" && !c.begun && !c.planned.Load() && status >= http.StatusBadRequest
}

// entry returns the audit entry of a request before it is answered.
func (e *Entrance) entry(caller *Caller, r *http.Request) audit.Entry {
	return audit.Entry{Time: e.config.Now().UTC(), Request: caller.id, Told: rest.RequestID(r), Principal: caller.Who.String(), How: evidenceOf(caller.Who), Source: caller.source,
		Verb: r.Method, Key: r.URL.Path, About: caller.about, Objects: caller.objects, Tenant: cmp.Or(caller.need.Tenant, caller.tenant)}
}

// changes reports whether a request asks for a change. Handing over keys counts as one.
func changes(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead || strings.TrimSuffix(r.URL.Path, "/") == mastercfg.AuthoritiesPath
}

// Begin writes to the audit log that a change begins, if the log is strict: nothing may happen without a line.
func (e *Entrance) Begin(r *http.Request) error {
	caller := CallerFrom(r.Context())
	if caller == nil || !changes(r) {
		return nil
	}
	caller.begun = e.config.Audit.IsStrict()
	return e.config.Audit.Begin(r.Context(), e.entry(caller, r))
}

// evidenceOf names how an identity was authenticated.
func evidenceOf(who identity.Identity) string {
	switch {
	case who.Kind == identity.Nobody:
		return "nothing"
	case who.Kind == identity.Root:
		return "socket"
	case who.Kind == identity.Loopback:
		return "loopback"
	case who.Session != "":
		return "token"
	}
	return "certificate"
}

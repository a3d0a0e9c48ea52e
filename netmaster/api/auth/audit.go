package auth

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

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

// refusals are the statuses of requests that are not authenticated, or not authorized.
var refusals = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}

// audit writes a line about an answered request if it asked for a change, was refused because of its client, or
// would have been refused in an enforced cluster. Requests without a route, or with a method that the route
// does not have, are not audited.
func (e *Entrance) audit(q *Caller, r *http.Request, status int, revision int64) {
	if !q.routed || status == http.StatusMethodNotAllowed {
		return
	}
	entry := e.entry(q, r)
	entry.Decision, entry.Status = audit.Allowed, status
	if revision > 0 {
		entry.Revision = strconv.FormatInt(revision, 10)
	}
	switch why := q.enforcedRefusal(r); {
	case q.exceeds != nil:
		entry.Decision, entry.Reason = audit.Denied, q.exceeds.Error()
	case q.denied(status):
		entry.Decision, entry.Reason = audit.Denied, q.refusalText()
	case why != "":
		entry.Decision, entry.Reason = audit.WouldRefuse, why
		e.config.Foreseen.add(foreseenKey{entry.Principal, entry.Source, q.request}, why, entry.Time)
	case !changes(r):
		return
	}
	if kind, often := q.mayBeSampled(r, status, entry.Decision); often {
		client, _ := q.client()
		left, worth := e.limiter.Tell(client, kind, entry.Time)
		if !worth {
			return
		}
		entry.Untold = left
	}
	if !q.planned.Load() { // no object has changed
		entry = entry.Brief()
	}
	e.config.Audit.Add(entry)
}

// denied reports whether a request failed because of its client. Only clients that ask for proper status codes
// see that in the status. A node with a valid join token that cannot join because of a conflict with others is
// denied as well; not if the cluster is full, or the state is being changed.
func (q *Caller) denied(status int) bool {
	if q.failed != nil {
		status = rest.StatusOf(q.failed)
	}
	switch {
	case q.flaw != nil && errors.Is(q.failed, q.flaw): // two identities in one request have the status of a bad request
		return true
	case q.proven:
		return slices.Contains(refusals, status) || fault.Is(q.failed, fault.Conflict)
	}
	return slices.Contains(refusals, status)
}

// refusalText returns the reason of a denial and, if the answer
// does not have it, what is wrong with the request's credentials.
func (q *Caller) refusalText() string {
	var text, flaw string
	if q.failed != nil {
		text, _, _ = strings.Cut(q.failed.Error(), "\n")
	}
	if q.flaw != nil {
		flaw = q.flaw.Error()
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
func (q *Caller) mayBeSampled(r *http.Request, status int, decision audit.Decision) (kind ratelimit.Telling, often bool) {
	_, bounded := q.client()
	switch {
	case q.exceeds != nil || q.isUnauthenticatedFlood(status):
		return ratelimit.Excess, true
	case bounded && (q.Who.Kind != identity.Nobody || q.proven) && decision == audit.Denied && !q.begun && !q.planned.Load():
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
func (q *Caller) isUnauthenticatedFlood(status int) bool {
	return !q.limitsOnlyNoted() && q.Who.Kind == identity.Nobody && q.about == "" && !q.begun && !q.planned.Load() && status >= http.StatusBadRequest
}

// entry returns the audit entry of a request before it is answered.
func (e *Entrance) entry(q *Caller, r *http.Request) audit.Entry {
	return audit.Entry{Time: e.config.Now().UTC(), Request: q.id, Told: rest.RequestID(r), Principal: q.Who.String(), How: evidenceOf(q.Who), Source: q.source,
		Verb: r.Method, Key: r.URL.Path, About: q.about, Objects: q.objects, Tenant: cmp.Or(q.need.Tenant, q.tenant)}
}

// changes reports whether a request asks for a change. Handing over keys counts as one.
func changes(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead || strings.TrimSuffix(r.URL.Path, "/") == mastercfg.AuthoritiesPath
}

// Begin writes to the audit log that a change begins, if the log is strict: nothing may happen without a line.
func (e *Entrance) Begin(r *http.Request) error {
	q := CallerFrom(r.Context())
	if q == nil || !changes(r) {
		return nil
	}
	q.begun = e.config.Audit.IsStrict()
	return e.config.Audit.Begin(r.Context(), e.entry(q, r))
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

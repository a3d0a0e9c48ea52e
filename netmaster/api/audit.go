package api

import (
	"crypto/rand"
	"net/http"
	"slices"
	"time"

	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// answered notes the status of an answer.
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

// Unwrap lets http.ResponseController find the connection.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// refusals are the statuses of those who may not.
var refusals = []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests}

// writeDown audits a request that was answered, if it was to change something or was
// refused because of who asked, or would have been. A path that no route has is about nothing.
func (a *API) writeDown(q *asking, r *http.Request, said *answered) {
	if !q.routed {
		return
	}
	e := audit.Entry{Time: time.Now().UTC(), Request: rand.Text(), Principal: q.who.String(), How: how(q.who), Source: sourceOf(r),
		Verb: r.Method, Key: r.URL.Path, About: q.about, Tenant: q.need.tenant, Decision: audit.Allowed, Status: said.status,
		Revision: said.Header().Get(mastercfg.RevisionHeader)}
	isRead := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch why := q.refused.Load(); {
	case slices.Contains(refusals, said.status):
		e.Decision = audit.Denied
	case why != nil:
		e.Decision, e.Reason = audit.WouldRefuse, *why
	case isRead:
		return
	}
	a.config.Audit.Add(e)
}

// how says what has shown who it is.
func how(who identity.Identity) string {
	switch {
	case who.Kind == identity.Nobody:
		return "nothing"
	case who.Kind == identity.Root:
		return "socket"
	case who.Session != "":
		return "token"
	}
	return "certificate"
}

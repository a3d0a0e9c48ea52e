package api

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Who asks, and whether he may. In a cluster that is open nobody is asked who he is.
//
// A request is judged three times by the same rule: when it enters, so that it costs
// nothing if it is refused; in every plan (guarded.go), in the state that the plan changes;
// and in the snapshot that an answer is made from. So a right that was taken away and
// what it allowed cannot cross, and what a refusal says does not depend on what there is.

// need is a right that a request needs.
type need struct {
	verb   rights.Verb
	area   rights.Area
	tenant string // in areas of tenants; empty: all of them
}

// asking is a request with who it comes from. nil: the cluster is open, or it is
// netmaster's own.
type asking struct {
	who    identity.Identity
	mode   mastercfg.SecurityMode
	flaw   error  // what he shows proves nothing
	source string // address
	id     string // of the request, in the audit log
	need   need   // of its route
	// routed is whether a route has its path.
	routed bool
	now    func() time.Time

	exceeds error                  // the request is beyond what its client may have; nil: it is not
	about   string                 // whom a login is for
	begun   bool                   // the audit log has a line that says so
	planned atomic.Bool            // a change of it was fit to be committed: it may have happened, whatever the answer says
	request string                 // method and route, as reports name it
	refused atomic.Pointer[string] // in a permissive cluster: why an enforced one would have refused it
	exposed atomic.Pointer[string] // the secret that it had in plain text, in words
}

// modeOf is the mode that the request was admitted in.
func (q *asking) modeOf() mastercfg.SecurityMode {
	if q == nil {
		return mastercfg.SecurityOpen
	}
	return q.mode
}

type askingKey struct{}

// askingOf is who asks in a request's context.
func askingOf(ctx context.Context) *asking {
	q, _ := ctx.Value(askingKey{}).(*asking)
	return q
}

// asks puts who asks into the context of a request.
func (a *API) asks(r *http.Request) (*http.Request, error) {
	var q *asking
	err := a.ledger.View(func(reader ledger.Reader) error {
		mode, err := access.ModeOf(reader)
		if err != nil || mode == mastercfg.SecurityOpen {
			return err
		}
		q = &asking{mode: mode, source: rest.SourceOf(r), id: rand.Text(), now: a.config.Now}
		if q.who, err = shownBy(r, reader); err == nil && (q.who.Kind == identity.User || q.who.Kind == identity.Token) {
			// Who shows what has ended is not who he was: in a permissive cluster, too, and with his share of requests.
			if _, err = access.Rights(reader, q.who, q.now()); err != nil {
				q.who = identity.Identity{}
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
	return r.WithContext(context.WithValue(identity.With(r.Context(), q.who), askingKey{}, q)), nil
}

// tokenHeader is that of the original's authenticating proxy.
const tokenHeader = "X-Auth-Token"

// shownBy is who a request shows to come from: what the connection proved, or a token.
func shownBy(r *http.Request, reader ledger.Reader) (identity.Identity, error) {
	who := identity.From(r.Context())
	if rest.Forwarded(r, who) {
		who = identity.Identity{}
	}
	tokens := slices.Clone(r.Header.Values(tokenHeader))
	for _, value := range r.Header.Values("Authorization") {
		scheme, token, _ := strings.Cut(value, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return who, rest.Denial{Cause: fault.New(fault.Denied, "Authorization: want Bearer and a token"), Status: http.StatusUnauthorized}
		}
		tokens = append(tokens, strings.TrimSpace(token))
	}
	if tokens = slices.Compact(tokens); len(tokens) > 0 && who.Kind == identity.Loopback {
		who = identity.Identity{} // who shows more is more
	}
	switch {
	case len(tokens) == 0:
		return who, nil
	case !rest.Private(r):
		return who, rest.Denial{Cause: fault.New(fault.Denied, "tokens are taken over https only, or on the machine of a netmaster"), Status: http.StatusUnauthorized}
	case len(tokens) > 1 || who.Kind != identity.Nobody:
		return who, rest.Denial{Cause: fault.New(fault.Malformed, "two identities at once: want one token, or one certificate"), Status: http.StatusBadRequest}
	}
	return access.Recognize(reader, tokens[0])
}

// judge refuses what the caller may not do in this state.
func (q *asking) judge(r ledger.Reader, n need) error {
	if q == nil || n.area == rights.Public {
		return nil
	}
	err := q.refusal(r, n)
	if _, isDenial := rest.Denied(err); !isDenial {
		return err
	}
	if q.mode == mastercfg.SecurityPermissive && n.area != rights.Access {
		q.note(err) // who may what is guarded before the rest is
		return nil
	}
	return err
}

func (q *asking) note(refusal error) {
	why := refusal.Error()
	q.refused.CompareAndSwap(nil, &why)
}

// foreseen is why an enforced cluster would have refused the request; empty: it would not.
func (q *asking) foreseen(r *http.Request) string {
	switch why := q.refused.Load(); {
	case q.mode != mastercfg.SecurityPermissive:
		return ""
	case q.exposed.Load() != nil:
		return *q.exposed.Load()
	case why != nil:
		return *why
	case rest.IsPlain(r):
		return "it came over plain HTTP"
	}
	return ""
}

// still refuses who may not have any more what he was admitted for.
func (q *asking) still(r ledger.Reader) error {
	if q == nil {
		return nil
	}
	return q.judge(r, q.need)
}

func (q *asking) refusal(r ledger.Reader, n need) error {
	if q.flaw != nil {
		return q.flaw
	}
	set, err := access.Rights(r, q.who, q.now())
	if err != nil || set.May(n.verb, n.area, n.tenant) {
		return err
	}
	what, where := "read", ""
	if n.verb == rights.Change {
		what = "change"
	}
	if n.tenant != "" {
		where = " of tenant " + n.tenant
	}
	return rest.Denial{Cause: fault.New(fault.Denied, "%s may not %s %s%s: it is %s", q.who, what, n.area, where, set), Status: http.StatusForbidden}
}

// visible are the tenants of which the caller may see an area. all: every one.
func (q *asking) visible(r ledger.Reader, area rights.Area) (tenants []string, all bool, err error) {
	if q == nil || q.mode != mastercfg.SecurityEnforced {
		return nil, true, nil
	}
	set, err := access.Rights(r, q.who, q.now())
	if err != nil {
		return nil, false, err
	}
	tenants, all = set.Tenants(rights.Read, area)
	return tenants, all, nil
}

// sees tells which tenants' run time the caller may see.
func (q *asking) sees(r ledger.Reader) (func(tenant string) bool, error) {
	tenants, all, err := q.visible(r, rights.RunTime)
	return func(tenant string) bool { return all || slices.Contains(tenants, tenant) }, err
}

// may tells whether a part of an answer is for the caller, too.
func (q *asking) may(r ledger.Reader, n need) bool {
	return q == nil || q.mode != mastercfg.SecurityEnforced || q.refusal(r, n) == nil
}

// needOf is what is needed for a verb on an object of a kind, or, without a key, on the
// kind. Who lists objects of tenants sees those of his own.
func needOf(verb rights.Verb, kind contivmodel.Kind, key string) need {
	tenant, _, _ := strings.Cut(key, ":")
	switch {
	case kind.Type != "tenant" && !kind.OfTenant():
		return need{verb, rights.Cluster, ""}
	case key == "":
		return need{verb, rights.Known, ""}
	case kind.Type == "tenant":
		return need{verb, rights.Tenants, key}
	}
	return need{verb, rights.Objects, tenant}
}

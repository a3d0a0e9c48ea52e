// Package auth authenticates the clients of the REST API, authorizes their requests, limits how much each may have at once, and
// records changes and refusals in the audit log. In an open cluster none of that is done.
//
// Requests of a term come in through its Entrance (entrance.go), which authenticates each (authenticate.go) and puts a Caller
// into its context. A request is authorized three times by the same rule, by what its route needs: when it enters, so that it costs
// nothing if it is refused; in every plan (ledger.go, plans.go), in the state that the plan changes;
// and in the snapshot that an answer is made from. So a right that was taken away and
// what it allowed cannot cross, and what a refusal says does not depend on what there is.
//
// The limits of a client are in limits.go. Changes and refusals are audited (audit.go), also those from
// before a leader is known (early.go), and a permissive cluster counts what an enforced one would have refused (foreseen.go).
package auth

import (
	"context"
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

// Need is a right that a request needs.
type Need struct {
	Verb   rights.Verb
	Area   rights.Area
	Tenant string // in areas of tenants; empty: all of them
}

// Caller is the client that a request comes from, with what was found out about it. nil: the cluster is open, or the request is
// netmaster's own.
type Caller struct {
	Who    identity.Identity
	mode   mastercfg.SecurityMode
	flaw   error  // what he shows proves nothing
	source string // address
	id     string // of the request, in the audit log
	need   Need   // of its route
	// routed is whether a route has its path.
	routed bool
	now    func() time.Time

	exceeds error                  // the request is beyond what its client may have; nil: it is not
	about   string                 // what its path does not say
	tenant  string                 // that it is about, if its route does not say
	objects []string               // that it is about, and what became of them
	proven  bool                   // it has shown what not everybody has, though nobody is known by it: the secret of a join token, a key
	failed  error                  // what it was refused with; nil: it was not
	begun   bool                   // the audit log has a line that says so
	planned atomic.Bool            // a change of it was fit to be committed: it may have happened, whatever the answer says
	request string                 // method and route, as reports name it
	refused atomic.Pointer[string] // in a permissive cluster: why an enforced one would have refused it
	exposed atomic.Pointer[string] // the secret that it had in plain text, in words
}

// Mode is the mode that the request was admitted in.
func (q *Caller) Mode() mastercfg.SecurityMode {
	if q == nil {
		return mastercfg.SecurityOpen
	}
	return q.mode
}

type callerKey struct{}

// CallerFrom is the caller in a request's context.
func CallerFrom(ctx context.Context) *Caller {
	q, _ := ctx.Value(callerKey{}).(*Caller)
	return q
}

// Judge refuses what the caller may not do in this state.
func (q *Caller) Judge(r ledger.Reader, n Need) error {
	if q == nil || n.Area == rights.Public {
		return nil
	}
	err := q.refusal(r, n)
	if _, isDenial := rest.Denied(err); !isDenial {
		return err
	}
	if q.mode == mastercfg.SecurityPermissive && n.Area != rights.Access {
		q.note(err) // who may what is guarded before the rest is
		return nil
	}
	return err
}

func (q *Caller) note(refusal error) {
	why := refusal.Error()
	q.refused.CompareAndSwap(nil, &why)
}

// enforcedRefusal returns why an enforced cluster would have refused the request; empty: it would not.
func (q *Caller) enforcedRefusal(r *http.Request) string {
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

// Require has the request need something else than its route says; what follows is judged by that.
func (q *Caller) Require(n Need) { q.need = n }

// Flaw is what is wrong with what the caller shows, so that it proves nothing; nil: it is not wrong.
func (q *Caller) Flaw() error { return q.flaw }

// SetSubject notes, for the audit log, what the request is about that its path does not say, such as the account that a login is for. No
// secret may be in it.
func (q *Caller) SetSubject(about string) {
	if q != nil {
		q.about = about
	}
}

// SetProvenSubject is SetSubject for a node or netmaster that has proved the secret or the key with which it asks to join.
// Whatever fails from then on is audited as a refusal of that one, and not of a stranger.
func (q *Caller) SetProvenSubject(about string) {
	if q != nil {
		q.about, q.proven = about, true
	}
}

// SetTenant notes, for the audit log, the tenant that the request is about.
func (q *Caller) SetTenant(tenant string) {
	if q != nil && tenant != rights.Everywhere {
		q.tenant = tenant
	}
}

// Names notes, for the audit log, the objects that the request is about, or what became of those that it has changed.
func (q *Caller) Names(objects []string) {
	if q != nil {
		q.objects = objects
	}
}

// Failed notes what the request was refused with.
func (q *Caller) Failed(err error) {
	if q != nil {
		q.failed = err
	}
}

// Exposes notes, in words, that the request had a secret in it that others could read.
func (q *Caller) Exposes(why string) { q.exposed.Store(&why) }

// Still fails if the caller has lost the right that it was admitted for.
func (q *Caller) Still(r ledger.Reader) error {
	if q == nil {
		return nil
	}
	return q.Judge(r, q.need)
}

func (q *Caller) refusal(r ledger.Reader, n Need) error {
	if q.flaw != nil {
		return q.flaw
	}
	set, err := access.Rights(r, q.Who, q.now())
	if err != nil || set.May(n.Verb, n.Area, n.Tenant) {
		return err
	}
	what, where := "read", ""
	if n.Verb == rights.Change {
		what = "change"
	}
	if n.Tenant != "" {
		where = " of tenant " + n.Tenant
	}
	return rest.Denial{Cause: fault.New(fault.Denied, "%s may not %s %s%s: it is %s", q.Who, what, n.Area, where, set), Status: http.StatusForbidden}
}

// Visible are the tenants of which the caller may see an area. all: every one.
func (q *Caller) Visible(r ledger.Reader, area rights.Area) (tenants []string, all bool, err error) {
	if q == nil || q.mode != mastercfg.SecurityEnforced {
		return nil, true, nil
	}
	set, err := access.Rights(r, q.Who, q.now())
	if err != nil {
		return nil, false, err
	}
	tenants, all = set.Tenants(rights.Read, area)
	return tenants, all, nil
}

// Sees tells which tenants' run time the caller may see.
func (q *Caller) Sees(r ledger.Reader) (func(tenant string) bool, error) {
	tenants, all, err := q.Visible(r, rights.RunTime)
	return func(tenant string) bool { return all || slices.Contains(tenants, tenant) }, err
}

// May tells whether a part of an answer is for the caller, too.
func (q *Caller) May(r ledger.Reader, n Need) bool {
	return q == nil || q.mode != mastercfg.SecurityEnforced || q.refusal(r, n) == nil
}

// NeedOf is what is needed for a verb on an object of a kind, or, without a key, on the
// kind. A list of objects of tenants has those of the caller's own.
func NeedOf(verb rights.Verb, kind contivmodel.Kind, key string) Need {
	tenant, _, _ := strings.Cut(key, ":")
	switch {
	case kind.Type != "tenant" && !kind.OfTenant():
		return Need{verb, rights.Cluster, ""}
	case key == "":
		return Need{verb, rights.Known, ""}
	case kind.Type == "tenant":
		return Need{verb, rights.Tenants, key}
	}
	return Need{verb, rights.Objects, tenant}
}

// Package auth authenticates the clients of the REST API, authorizes their requests, limits the concurrent requests of
// each client, and records changes and refusals in the audit log. An open cluster does none of this.
//
// Requests of a term pass through its Entrance (entrance.go), which authenticates each (authenticate.go) and
// puts a Caller into its context. A request is authorized three times by the same rule, with the right that its
// route needs: when it enters, so that a refused request costs nothing; in every plan (ledger.go, plans.go), in
// the state that the plan changes; and in the snapshot that an answer is computed from. So no request uses a
// right that was revoked before, and the text of a refusal does not reveal which objects exist.
//
// The limits of a client are in limits.go. Changes and refusals are audited
// (audit.go), also those before a leader is known (early.go), and a permissive
// cluster counts the requests that an enforced one would have refused (foreseen.go).
package auth

import (
	"cmp"
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

// Caller is the authenticated client of a request. It is nil in an open cluster, and for requests of netmaster itself.
type Caller struct {
	Who    identity.Identity
	mode   mastercfg.SecurityMode
	flaw   error  // why its credentials are invalid
	source string // source address
	via    string // netmaster that forwards the request, and was believed who the client is; empty: none
	now    func() time.Time
	closed atomic.Bool // the cluster was enforced meanwhile

	routed  bool   // the path belongs to a route
	need    Need   // right that the route needs
	request string // method and route, for reports

	notes
}

// Mode returns the security mode in which the request was admitted.
func (c *Caller) Mode() mastercfg.SecurityMode {
	if c == nil {
		return mastercfg.SecurityOpen
	}
	return c.mode
}

type callerKey struct{}

// CallerFrom returns the caller in a request's context; nil: none.
func CallerFrom(ctx context.Context) *Caller {
	caller, _ := ctx.Value(callerKey{}).(*Caller)
	return caller
}

// Judge returns an error if the caller lacks a right in this state.
func (c *Caller) Judge(r ledger.Reader, n Need) error {
	if c == nil || n.Area == rights.Public {
		return nil
	}
	err := c.refusal(r, n)
	if _, isDenial := rest.Denied(err); !isDenial || n.Area == rights.Access { // rights are enforced earlier than the rest
		return err
	}
	if enforced, failed := c.enforced(r); enforced || failed != nil {
		return cmp.Or(failed, err)
	}
	c.note(err)
	return nil
}

// enforced reports whether the cluster is enforced in this state, or was when it admitted the request: one that began
// before, and takes long to send its body, or to answer, must not go on as if nobody was refused.
func (c *Caller) enforced(r ledger.Reader) (bool, error) {
	if c.mode == mastercfg.SecurityEnforced {
		return true, nil
	}
	mode, err := access.ModeOf(r)
	if mode == mastercfg.SecurityEnforced {
		c.closed.Store(true)
	}
	return mode == mastercfg.SecurityEnforced, err
}

func (c *Caller) note(refusal error) {
	why := refusal.Error()
	c.refused.CompareAndSwap(nil, &why)
}

// enforcedRefusal returns why an enforced cluster would have refused the request; empty: it would not.
func (c *Caller) enforcedRefusal(r *http.Request) string {
	switch why := c.refused.Load(); {
	case c.mode != mastercfg.SecurityPermissive:
		return ""
	case c.exposed.Load() != nil:
		return *c.exposed.Load()
	case why != nil:
		return *why
	case rest.IsPlain(r):
		return "it came over plain HTTP"
	}
	return ""
}

// Require replaces the right that the request needs; later checks use the new one.
func (c *Caller) Require(n Need) { c.need = n }

// Flaw returns why the caller's credentials are invalid; nil: they are not.
func (c *Caller) Flaw() error { return c.flaw }

// SetSubject sets, for the audit log, the subject of the request that its path does not name, such as the
// account of a login. It must not contain a secret.
func (c *Caller) SetSubject(about string) {
	if c != nil {
		c.about = about
	}
}

// SetProvenSubject is SetSubject for a node or netmaster that has proved the secret or the key with which it
// asks to join. A later failure is audited as a refusal of this one, and not of an unknown client.
func (c *Caller) SetProvenSubject(about string) {
	if c != nil {
		c.about, c.proven = about, true
	}
}

// SetTenant sets the tenant of the request for the audit log.
func (c *Caller) SetTenant(tenant string) {
	if c != nil && tenant != rights.Everywhere {
		c.tenant = tenant
	}
}

// Names sets, for the audit log, the objects of the request, or what was done with them.
func (c *Caller) Names(objects []string) {
	if c != nil {
		c.objects = objects
	}
}

// Failed sets the error of a refused request.
func (c *Caller) Failed(err error) {
	if c != nil {
		c.failed = err
	}
}

// Exposes records that the request had a secret that others could read, in words.
func (c *Caller) Exposes(why string) { c.exposed.Store(&why) }

// Still fails if the caller has lost the right that it was admitted for.
func (c *Caller) Still(r ledger.Reader) error {
	if c == nil {
		return nil
	}
	return c.Judge(r, c.need)
}

// Rights returns the rights of the caller in this state. It fails if its credentials are invalid, or if the netmaster
// that has forwarded the request was removed: a watch outlasts the checks of connections.
func (c *Caller) Rights(r ledger.Reader) (rights.Set, error) {
	if c.flaw != nil {
		return nil, c.flaw
	}
	if c.via != "" {
		if err := access.StillNetmaster(r, c.via); err != nil {
			return nil, err
		}
	}
	return access.Rights(r, c.Who, c.now())
}

func (c *Caller) refusal(r ledger.Reader, n Need) error {
	set, err := c.Rights(r)
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
	return rest.Denial{Cause: fault.New(fault.Denied, "%s may not %s %s%s: it is %s", c.Who, what, n.Area, where, set), Status: http.StatusForbidden}
}

// Visible returns the tenants in which the caller may read an area. all: every tenant.
func (c *Caller) Visible(r ledger.Reader, area rights.Area) (tenants []string, all bool, err error) {
	if c == nil {
		return nil, true, nil
	}
	if enforced, err := c.enforced(r); err != nil || !enforced {
		return nil, err == nil, err
	}
	set, err := c.Rights(r)
	if err != nil {
		return nil, false, err
	}
	tenants, all = set.Tenants(rights.Read, area)
	return tenants, all, nil
}

// Sees returns whether the caller may read the run time of a tenant.
func (c *Caller) Sees(r ledger.Reader) (func(tenant string) bool, error) {
	tenants, all, err := c.Visible(r, rights.RunTime)
	return func(tenant string) bool { return all || slices.Contains(tenants, tenant) }, err
}

// May reports whether the caller may receive a part of an answer.
func (c *Caller) May(r ledger.Reader, n Need) bool {
	if c == nil {
		return true
	}
	enforced, err := c.enforced(r)
	return err == nil && (!enforced || c.refusal(r, n) == nil)
}

// NeedOf returns the right that a verb needs on an object of a kind or, without a key, on the kind. A list of
// objects of tenants is limited to the caller's own.
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

package logins

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// ops is the original's name for the role that administers a tenant.
const ops = "ops"

// bindingForm is a binding in the JSON of the original's proxy.
type bindingForm struct {
	ID        string `json:"AuthzUUID"`
	Principal string `json:"PrincipalName"`
	Local     bool   `json:"Local"`
	Role      string `json:"Role"`
	Tenant    string `json:"TenantName"` // empty: all
}

func formOfBinding(b access.Bound) bindingForm {
	form := bindingForm{b.ID, b.Principal, b.Local, b.Role, b.Tenant}
	if b.Role == string(rights.TenantAdmin) {
		form.Role = ops
	}
	if b.Tenant == rights.Everywhere {
		form.Tenant = ""
	}
	return form
}

func grantOf(b access.Bound) rights.Grant {
	return rights.Grant{Role: rights.Role(b.Role), Tenant: b.Tenant}
}

// granting fails if the caller may not grant, or revoke, a role. This is enforced in permissive clusters as well.
func (l *Logins) granting(caller *auth.Caller, r ledger.Reader, grants ...rights.Grant) error {
	set, err := caller.Rights(r)
	if err != nil {
		return err
	}
	for _, g := range grants {
		if !set.MayGrant(g) {
			return rest.Denial{Cause: fault.New(fault.Denied, "%s may not give or take roles: it is %s", caller.Who, set), Status: http.StatusForbidden}
		}
	}
	return nil
}

// auditGrant adds the granted or removed role, its tenant and its principal to the audit line of the request.
func auditGrant(caller *auth.Caller, g rights.Grant, principal string, local bool) {
	kind := "group"
	if local {
		kind = string(identity.User)
	}
	caller.SetSubject(fmt.Sprintf("%s in %s for %s/%s", g.Role, g.Tenant, kind, principal)) // long names of groups come last, where they are cut
	caller.SetTenant(g.Tenant)
}

// listBindings answers the bindings that the caller may revoke.
func (l *Logins) listBindings(r *http.Request) (rest.Reply, error) {
	caller := auth.CallerFrom(r.Context())
	return rest.Reply{From: func(reader ledger.Reader) (rest.Reply, error) {
		all, err := access.Bindings(reader)
		if err != nil {
			return rest.Reply{}, err
		}
		set, err := caller.Rights(reader)
		if err != nil {
			return rest.Reply{}, err
		}
		all = slices.DeleteFunc(all, func(b access.Bound) bool { return !set.MayGrant(grantOf(b)) })
		forms := []bindingForm{}
		for _, b := range all {
			forms = append(forms, formOfBinding(b))
		}
		return rest.Reply{Body: forms}, nil
	}}, nil
}

func (l *Logins) getBinding(r *http.Request) (rest.Reply, error) {
	caller := auth.CallerFrom(r.Context())
	return rest.Reply{From: func(reader ledger.Reader) (rest.Reply, error) {
		b, err := l.bindingAt(caller, reader, mux.Vars(r)["id"])
		return rest.Reply{Body: formOfBinding(b)}, err
	}}, nil
}

// bindingAt returns a binding that the caller may revoke. For
// callers that are not admins, other bindings do not exist.
func (l *Logins) bindingAt(caller *auth.Caller, r ledger.Reader, id string) (access.Bound, error) {
	b, err := access.BindingAt(r, id)
	if fault.Is(err, fault.NotFound) {
		if refused := l.granting(caller, r, rights.Grant{Role: rights.Admin, Tenant: rights.Everywhere}); refused != nil {
			return b, refused
		}
	}
	if err != nil {
		return b, err
	}
	return b, l.granting(caller, r, grantOf(b))
}

func (l *Logins) bind(r *http.Request) (rest.Reply, error) {
	var sent struct {
		PrincipalName, Role, TenantName string
		Local                           bool
	}
	if err := rest.ReadInto(r, &sent); err != nil {
		return rest.Reply{}, err
	}
	if sent.Role == ops && sent.TenantName == "" {
		return rest.Reply{}, fault.New(fault.Invalid, "role ops: a tenant is wanted").WithField("tenantName")
	}
	g := rights.Grant{Role: rights.Role(sent.Role), Tenant: cmp.Or(sent.TenantName, rights.Everywhere)}
	if sent.Role == ops {
		g.Role = rights.TenantAdmin
	}
	if g.Role == rights.Admin {
		g.Tenant = rights.Everywhere // the original stored a meaningless tenant
	}
	auditGrant(auth.CallerFrom(r.Context()), g, sent.PrincipalName, sent.Local)
	var bound access.Bound
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) (err error) {
		if err := l.granting(auth.CallerFrom(r.Context()), tx, g); err != nil {
			return err
		}
		bound, err = access.Bind(tx, sent.PrincipalName, sent.Local, g)
		return err
	})
	return rest.Reply{Code: http.StatusCreated, Body: formOfBinding(bound), Revision: rev}, err
}

func (l *Logins) unbind(r *http.Request) (rest.Reply, error) {
	caller := auth.CallerFrom(r.Context())
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		b, err := l.bindingAt(caller, tx, mux.Vars(r)["id"])
		if err != nil {
			return err
		}
		auditGrant(caller, grantOf(b), b.Principal, b.Local)
		return access.Unbind(tx, caller.Who, b.ID)
	})
	return rest.Reply{Code: http.StatusNoContent, Revision: rev}, err
}

package access

import (
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Bound is one binding with its principal.
type Bound struct {
	Principal string
	Local     bool // a local user; false: a name of an external directory
	mastercfg.Binding
}

const (
	maxPrincipal = 512  // bytes of the name of a principal
	mostBindings = 1000 // in a tenant, since its administrator may create them
)

// bindingsOf returns the bindings in a record, for a change; none if there is no record.
func bindingsOf(r ledger.Reader, key string) (mastercfg.Bindings, error) {
	if _, there := r.Get(key); !there {
		return mastercfg.Bindings{}, nil
	}
	return ledger.Read[mastercfg.Bindings](r, key)
}

// Bindings returns all bindings, by principal.
func Bindings(r ledger.Reader) ([]Bound, error) {
	all := []Bound{}
	err := ledger.ReadEach(r, mastercfg.BindingsPrefix, func(_ string, of mastercfg.Bindings) error {
		for _, b := range of.Bindings {
			all = append(all, Bound{of.Principal, of.Local, b})
		}
		return nil
	})
	return all, err
}

// BindingAt returns the binding with an id.
func BindingAt(r ledger.Reader, id string) (Bound, error) {
	all, err := Bindings(r)
	if err != nil {
		return Bound{}, err
	}
	i := slices.IndexFunc(all, func(b Bound) bool { return b.ID == id })
	if i < 0 {
		return Bound{}, fault.New(fault.NotFound, "binding %.64q: there is none of this id", id)
	}
	return all[i], nil
}

// Bind assigns a role to a principal. If it already has the role nothing changes.
func Bind(tx *ledger.Tx, principal string, local bool, g rights.Grant) (Bound, error) {
	if err := checkGrant(tx, g); err != nil {
		return Bound{}, err
	}
	if principal == "" || len(principal) > maxPrincipal {
		return Bound{}, fault.New(fault.Invalid, "principalName %.64q: want a name of at most %d bytes", principal, maxPrincipal).WithField("principalName")
	}
	if _, err := UserAt(tx, principal); local && err != nil {
		return Bound{}, fault.New(fault.MissingReference, "principalName: %w", err).WithField("principalName")
	}
	key := bindingsKey(principal, local)
	of, err := bindingsOf(tx, key)
	if err != nil {
		return Bound{}, err
	}
	for _, b := range of.Bindings {
		if b.Role == string(g.Role) && b.Tenant == g.Tenant {
			return Bound{principal, local, b}, nil
		}
	}
	if err := roomIn(tx, g.Tenant); err != nil {
		return Bound{}, err
	}
	added := mastercfg.Binding{ID: newID(), Role: string(g.Role), Tenant: g.Tenant}
	of.Principal, of.Local, of.Bindings = principal, local, append(of.Bindings, added)
	return Bound{principal, local, added}, ledger.Write(tx, key, of)
}

// roomIn returns an error if a tenant has the maximal number of bindings.
func roomIn(r ledger.Reader, tenant string) error {
	if tenant == rights.Everywhere {
		return nil
	}
	all, err := Bindings(r)
	if err != nil {
		return err
	}
	n := 0
	for _, b := range all {
		if b.Tenant == tenant {
			n++
		}
	}
	if n >= mostBindings {
		return fault.New(fault.Exhausted, "tenant %s: %d bindings of roles, there can be no more", tenant, n).WithField("tenantName")
	}
	return nil
}

// checkGrant refuses unknown roles and tenants.
func checkGrant(r ledger.Reader, g rights.Grant) error {
	if !g.Valid() {
		return fault.New(fault.Invalid, "role %.64q in tenant %.64q: want one of %v, and a tenant for viewer and tenant-admin only, %s for all",
			g.Role, g.Tenant, rights.Roles(), rights.Everywhere).WithField("role")
	}
	if _, there := r.Get(mastercfg.ModelKey("tenant", g.Tenant)); g.Tenant != rights.Everywhere && !there {
		return fault.New(fault.MissingReference, "tenant %.64q does not exist", g.Tenant).WithField("tenantName")
	}
	return nil
}

// bindingsKey returns the key of a principal's roles.
func bindingsKey(principal string, local bool) string {
	if local {
		return mastercfg.UserBindingsKey(principal)
	}
	return mastercfg.GroupBindingsKey(principal)
}

// Unbind removes a binding.
func Unbind(tx *ledger.Tx, by identity.Identity, id string) error {
	b, err := BindingAt(tx, id)
	if err != nil {
		return err
	}
	unbind := func() error {
		return drop(tx, bindingsKey(b.Principal, b.Local), func(other mastercfg.Binding) bool { return other.ID == id })
	}
	if b.Role != string(rights.Admin) {
		return unbind()
	}
	return KeepingAdmin(tx, by, unbind)
}

// UnbindTenant removes all bindings in a tenant, so that none applies to a later tenant with the same name. The
// tenant is also removed from API tokens, from join tokens, and from nodes that have joined for it.
func UnbindTenant(tx *ledger.Tx, tenant string) error {
	err := ledger.ReadEach(tx, mastercfg.BindingsPrefix, func(key string, of mastercfg.Bindings) error {
		return drop(tx, key, func(b mastercfg.Binding) bool { return b.Tenant == tenant })
	})
	if err != nil {
		return err
	}
	err = ledger.ReadEach(tx, mastercfg.APITokenPrefix, func(key string, t mastercfg.APIToken) error {
		if !slices.Contains(t.Tenants, tenant) {
			return nil
		}
		t.Tenants = slices.DeleteFunc(t.Tenants, func(other string) bool { return other == tenant })
		return ledger.Write(tx, key, t)
	})
	if err != nil {
		return err
	}
	err = ledger.ReadEach(tx, mastercfg.JoinTokenPrefix, func(key string, t mastercfg.JoinToken) error {
		if !slices.Contains(t.Tenants, tenant) {
			return nil
		}
		t.Tenants = mastercfg.WithoutTenant(t.Tenants, tenant)
		return ledger.Write(tx, key, t)
	})
	if err != nil {
		return err
	}
	return ledger.ReadEach(tx, mastercfg.NodePrefix, func(key string, n mastercfg.Joined) error {
		if !slices.Contains(n.Tenants, tenant) {
			return nil
		}
		n.Tenants = mastercfg.WithoutTenant(n.Tenants, tenant)
		return ledger.Write(tx, key, n)
	})
}

// drop removes some bindings from a record. The record of a local user remains when it is empty: its revision is
// the time of the last change of the user's rights (Since).
func drop(tx *ledger.Tx, key string, gone func(mastercfg.Binding) bool) error {
	of, err := bindingsOf(tx, key)
	if err != nil {
		return err
	}
	n := len(of.Bindings)
	if of.Bindings = slices.DeleteFunc(of.Bindings, gone); len(of.Bindings) == n {
		return nil
	}
	if len(of.Bindings) == 0 && !of.Local {
		tx.Delete(key)
		return ledger.Write(tx, mastercfg.GroupsKey, mastercfg.GroupGone{Change: newID()}) // unique: an equal record would not be written
	}
	return ledger.Write(tx, key, of)
}

// newID returns a random UUID, as clients of the original controller expect.
func newID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

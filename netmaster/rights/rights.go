// Package rights is the roles, as one table, and the rights that a set of roles in some tenants adds up to.
//
// A right is about an area of the REST interface and, in the areas of tenants, about one tenant. Rights add up; none
// removes another. The roles of a user are in package access; which request needs which right is in package auth.
package rights

import (
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/identity"
)

// Role is a name for a set of rights.
type Role string

// The roles. The first five are granted by bindings and to API tokens; the other comes with an identity.
const (
	Viewer      Role = "viewer"       // reads its tenants
	TenantAdmin Role = "tenant-admin" // changes them
	Operator    Role = "operator"     // administers the cluster
	Admin       Role = "admin"        // everything, including users and roles
	Metrics     Role = "metrics"      // reads metrics

	nodeRole Role = "node" // an agent
)

// Area is a part of the REST interface. The zero value is that of routes without an area, which are refused to all.
type Area int

// The areas.
const (
	Unlisted   Area = iota
	Public          // for all clients, without an identity
	Known           // for all clients with an identity; the answer is limited to what they may see
	OfKind          // of objects of the model: one of the next three, by their kind
	Objects         // objects of a tenant
	Tenants         // tenants themselves
	Cluster         // objects of no tenant: global settings, BGP, fabrics
	RunTime         // run-time state of a tenant
	Operations      // the cluster as a whole: nodes, store
	Access          // users, roles, tokens
	Agents          // routes of agents
	Measured        // metrics
	areas           // number of areas
)

var areaNames = [areas]string{Unlisted: "unlisted", Public: "public", Known: "known", OfKind: "of kind", Objects: "objects", Tenants: "tenants",
	Cluster: "cluster", RunTime: "run time", Operations: "operations", Access: "access", Agents: "agents", Measured: "metrics"}

// String returns the name of an area in refusals.
func (a Area) String() string { return areaNames[a] }

// OfTenants reports whether rights in an area are about one tenant.
func (a Area) OfTenants() bool { return a == Objects || a == Tenants || a == RunTime }

// Verb is the kind of access to an area.
type Verb uint8

// The verbs. Read includes get, list and watch.
const (
	Read Verb = 1 << iota
	Change
)

const both = Read | Change

// table has the rights of each role, beyond Public and Known.
var table = map[Role][areas]Verb{
	Viewer:      {Objects: Read, Tenants: Read, RunTime: Read},
	TenantAdmin: {Objects: both, Tenants: Read, RunTime: both},
	Operator:    {Objects: both, Tenants: both, Cluster: both, RunTime: both, Operations: both, Measured: Read},
	Admin: {Objects: both, Tenants: both, Cluster: both, RunTime: both, Operations: both, Access: both,
		Agents: both, Measured: Read},
	Metrics:  {Measured: Read},
	nodeRole: {Agents: both},
}

// Everywhere is the tenant of grants for all tenants and the cluster.
const Everywhere = "*"

// Grant is a role in a tenant, or everywhere.
type Grant struct {
	Role   Role   `json:"role"`
	Tenant string `json:"tenant"`
}

// Roles that can be granted, in the order of their power, and whether also for one tenant.
var given = []struct {
	role   Role
	tenant bool
}{{Viewer, true}, {TenantAdmin, true}, {Metrics, false}, {Operator, false}, {Admin, false}}

// Roles returns the names of the roles that can be granted.
func Roles() []string {
	var names []string
	for _, g := range given {
		names = append(names, string(g.role))
	}
	return names
}

// Valid reports whether the grant can be made: the role exists, and its scope is one that the role permits.
func (g Grant) Valid() bool {
	for _, known := range given {
		if known.role == g.Role {
			return g.Tenant == Everywhere || known.tenant && g.Tenant != ""
		}
	}
	return false
}

// Set is the grants of an identity.
type Set []Grant

// With returns the rights that come with an identity, without bindings. Users and tokens have none.
func With(who identity.Identity) Set {
	switch who.Kind {
	case identity.Root, identity.Master:
		return Set{{Admin, Everywhere}}
	case identity.Node:
		return Set{{nodeRole, Everywhere}}
	case identity.Loopback:
		return Set{{Role(who.Name), Everywhere}}
	}
	return nil
}

// May reports whether the set allows a verb in an area; tenant is used in areas of tenants, and empty there for all
// tenants.
func (s Set) May(verb Verb, area Area, tenant string) bool {
	return area == Public || area == Known || s.has(verb, area, tenant)
}

func (s Set) has(verb Verb, area Area, tenant string) bool {
	if area <= Unlisted || area >= areas {
		return false
	}
	return slices.ContainsFunc(s, func(g Grant) bool {
		in := g.Tenant == Everywhere || area.OfTenants() && tenant != "" && g.Tenant == tenant
		return in && table[g.Role][area]&verb == verb
	})
}

// Tenants returns the tenants in which a verb is allowed in an area, sorted; all: in every tenant.
func (s Set) Tenants(verb Verb, area Area) (names []string, all bool) {
	if s.has(verb, area, "") {
		return nil, true
	}
	for _, g := range s {
		if area.OfTenants() && table[g.Role][area]&verb == verb {
			names = append(names, g.Tenant)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), false
}

// MayGrant reports whether the set allows granting, or revoking, a role: an admin all roles, an administrator of
// a tenant those for this tenant.
func (s Set) MayGrant(g Grant) bool {
	inTenant := g.Tenant != Everywhere && (g.Role == Viewer || g.Role == TenantAdmin)
	return s.May(Change, Access, "") || inTenant && slices.Contains(s, Grant{TenantAdmin, g.Tenant})
}

// String lists the grants: "viewer of blue, operator".
func (s Set) String() string {
	var all []string
	for _, g := range s {
		text := string(g.Role)
		if g.Tenant != Everywhere {
			text += " of " + g.Tenant
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return "no role"
	}
	return strings.Join(all, ", ")
}

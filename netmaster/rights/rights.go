// Package rights is the roles, as one table, and the rights that a set of roles in some
// tenants adds up to.
//
// A right is about an area of the REST interface and, in the areas of tenants, about
// one tenant. Rights add up; nothing takes one away. Which roles a user has is in package access; where a
// request needs which right is in package auth.
package rights

import (
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/identity"
)

// Role is a name for a set of rights.
type Role string

// The roles. The first four are given by bindings and to API tokens; the others come
// with an identity.
const (
	Viewer      Role = "viewer"       // sees what is in its tenants
	TenantAdmin Role = "tenant-admin" // changes it
	Operator    Role = "operator"     // runs the cluster
	Admin       Role = "admin"        // everything, also who may what
	Metrics     Role = "metrics"      // reads metrics

	nodeRole Role = "node" // an agent
)

// Area is a part of the REST interface. The zero value is that of routes which nobody
// has put into one: nobody may use them.
type Area int

// The areas.
const (
	Unlisted   Area = iota
	Public          // for everybody, without an identity
	Known           // for everybody with an identity; the answer is cut to what it may see
	OfKind          // of objects of the model: one of the next three, by their kind
	Objects         // objects of a tenant
	Tenants         // tenants themselves
	Cluster         // objects of no tenant: global settings, BGP, fabrics
	RunTime         // what is known of a tenant at run time
	Operations      // the cluster as a whole: its nodes, its store
	Access          // users, who may what, tokens
	Agents          // what agents ask for
	Measured        // metrics
	areas           // how many there are
)

var areaNames = [areas]string{Unlisted: "unlisted", Public: "public", Known: "known", OfKind: "of kind", Objects: "objects", Tenants: "tenants",
	Cluster: "cluster", RunTime: "run time", Operations: "operations", Access: "access", Agents: "agents", Measured: "metrics"}

// String is how refusals call an area.
func (a Area) String() string { return areaNames[a] }

// OfTenants tells whether rights in an area are about one tenant.
func (a Area) OfTenants() bool { return a == Objects || a == Tenants || a == RunTime }

// Verb is what somebody does in an area.
type Verb uint8

// The verbs. Read is to get, list and watch.
const (
	Read Verb = 1 << iota
	Change
)

const both = Read | Change

// table is what each role may, beside what is Public or Known.
var table = map[Role][areas]Verb{
	Viewer:      {Objects: Read, Tenants: Read, RunTime: Read},
	TenantAdmin: {Objects: both, Tenants: Read, RunTime: both},
	Operator:    {Objects: both, Tenants: both, Cluster: both, RunTime: both, Operations: both, Measured: Read},
	Admin: {Objects: both, Tenants: both, Cluster: both, RunTime: both, Operations: both, Access: both,
		Agents: both, Measured: Read},
	Metrics:  {Measured: Read},
	nodeRole: {Agents: both},
}

// Everywhere is the tenant of grants that are about all of them, and the cluster.
const Everywhere = "*"

// Grant is a role in a tenant, or everywhere.
type Grant struct {
	Role   Role   `json:"role"`
	Tenant string `json:"tenant"`
}

// Roles that can be given, in the order of their power, and whether also in one tenant.
var given = []struct {
	role   Role
	tenant bool
}{{Viewer, true}, {TenantAdmin, true}, {Metrics, false}, {Operator, false}, {Admin, false}}

// Roles are the names of roles that can be given.
func Roles() []string {
	var names []string
	for _, g := range given {
		names = append(names, string(g.role))
	}
	return names
}

// Valid tells whether the grant can be given: a role there is, in a tenant or
// everywhere as its rights want.
func (g Grant) Valid() bool {
	for _, known := range given {
		if known.role == g.Role {
			return g.Tenant == Everywhere || known.tenant && g.Tenant != ""
		}
	}
	return false
}

// Set is what an identity was given.
type Set []Grant

// With are the rights that come with an identity, whatever bindings say. Users and
// tokens have none but to ask who they are.
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

// May tells whether the set allows a verb in an area; tenant counts in areas of tenants,
// and is empty there for whoever wants all of them.
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

// Tenants are those in which a verb is allowed in an area, sorted; all: in every one.
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

// MayGrant tells whether the set allows to give, or take, a role: an admin all, and who
// administers a tenant those that are about this tenant.
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

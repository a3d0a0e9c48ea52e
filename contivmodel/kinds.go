package contivmodel

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Kind is one type of object, as read from its declaration.
type Kind struct {
	Type    string  // type string: "endpointGroup"
	Segment string  // route segment: "endpointGroups"
	Doc     string  // description, one line
	Fields  []Field // alphabetical by JSON name; without key and links
	Oper    any     // zero value of the run-time type; nil if there is none

	goType reflect.Type
	key    int   // index of the Key field
	links  []int // indexes of the link fields

	keys    []Field // fields of the key, in order
	secrets []Field
}

// declaration has what is not in the struct itself.
type declaration struct {
	segment string
	zero    Object
	oper    any
	doc     string
}

// declarations lists every kind, alphabetical by segment regardless of case.
var declarations = []declaration{
	{"aciGws", &AciGw{}, AciGwOper{}, "Connection to an ACI fabric; there is at most one."},
	{"appProfiles", &AppProfile{}, nil, "Groups that the fabric treats as one application."},
	{"Bgps", &Bgp{}, BgpOper{}, "BGP speaker of a node."},
	{"endpointGroups", &EndpointGroup{}, EndpointGroupOper{}, "Endpoints of one network that policies apply to."},
	{"extContractsGroups", &ExtContractsGroup{}, nil, "Contracts that exist in the fabric."},
	{"globals", &Global{}, GlobalOper{}, "Cluster-wide configuration; there is exactly one."},
	{"netprofiles", &Netprofile{}, nil, "Rate limit and marking."},
	{"networks", &Network{}, NetworkOper{}, "Subnet with an encapsulation."},
	{"policys", &Policy{}, PolicyOper{}, "Named set of rules."},
	{"rules", &Rule{}, nil, "Rule of a policy."},
	{"serviceLBs", &ServiceLB{}, ServiceLBOper{}, "Virtual address in front of labelled endpoints."},
	{"tenants", &Tenant{}, TenantOper{}, "Separate world of networks, groups and policies."},
	{"volumeProfiles", &VolumeProfile{}, nil, "Not implemented; routes only."},
	{"volumes", &Volume{}, nil, "Not implemented; routes only."},
}

// DependencyOrder lists the implemented types, each after those that its objects refer to.
func DependencyOrder() []string {
	return []string{"global", "aciGw", "tenant", "netprofile", "network", "extContractsGroup", "policy",
		"endpointGroup", "rule", "appProfile", "serviceLB", "Bgp"}
}

var kinds = sync.OnceValue(func() []Kind {
	all := make([]Kind, 0, len(declarations))
	for _, d := range declarations {
		all = append(all, readKind(d))
	}
	return all
})

// Kinds returns all kinds, sorted by segment. The caller owns the slice; its elements are shared and must not be
// changed.
func Kinds() []Kind { return slices.Clone(kinds()) }

// KindBySegment finds a kind by its route segment.
func KindBySegment(segment string) (Kind, bool) {
	return findKind(func(k *Kind) bool { return k.Segment == segment })
}

// KindByType finds a kind by its type string.
func KindByType(typ string) (Kind, bool) {
	return findKind(func(k *Kind) bool { return k.Type == typ })
}

// KindOf returns the kind of an object.
func KindOf(o Object) Kind {
	k, _ := KindByType(o.ModelType())
	return k
}

func findKind(match func(*Kind) bool) (Kind, bool) {
	all := kinds()
	for i := range all {
		if match(&all[i]) {
			return all[i], true
		}
	}
	return Kind{}, false
}

// New returns an empty object of the kind.
func (k Kind) New() Object { return reflect.New(k.goType).Interface().(Object) }

// Field finds a field by its JSON name.
func (k Kind) Field(name string) (Field, bool) {
	for _, f := range k.Fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// KeyFields returns the fields of the key, in order. They are shared and must not be changed.
func (k Kind) KeyFields() []Field { return k.keys }

// OfTenant reports whether the objects belong to tenants: the first part of their keys is a tenant's name.
func (k Kind) OfTenant() bool { return len(k.keys) > 1 && k.keys[0].Name == "tenantName" }

// Columns returns the fields shown in a listing, in order.
func (k Kind) Columns() []Field { return k.fieldsBy(func(f Field) int { return f.Column }) }

// fieldsBy selects the fields with a position above zero and sorts them by it.
func (k Kind) fieldsBy(position func(Field) int) []Field {
	var selected []Field
	for _, f := range k.Fields {
		if position(f) > 0 {
			selected = append(selected, f)
		}
	}
	slices.SortFunc(selected, func(a, b Field) int { return position(a) - position(b) })
	return selected
}

func readKind(d declaration) Kind {
	t := reflect.TypeOf(d.zero).Elem()
	k := Kind{Type: d.zero.ModelType(), Segment: d.segment, Doc: d.doc, Oper: d.oper, goType: t}
	for i := range t.NumField() {
		switch name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name {
		case "key":
			k.key = i
		case "links", "link-sets":
			k.links = append(k.links, i)
		default:
			k.Fields = append(k.Fields, readField(name, i, t.Field(i)))
		}
	}
	slices.SortFunc(k.Fields, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	k.keys = k.fieldsBy(func(f Field) int { return f.KeyPart })
	k.secrets = slices.DeleteFunc(slices.Clone(k.Fields), func(f Field) bool { return !f.Secret() })
	return k
}

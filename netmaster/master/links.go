package master

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// A link-set lists the objects that refer to an object, or belong to it. It is not stored: the record of a tenant
// with ten thousand networks would be a megabyte, read and written with each of them. Its contents follow from the
// other objects, by their keys (a rule's begins with that of its policy) or by an index (a group names its
// policies). Complete fills it in when it is requested; links are symmetric because each is stored once only.
//
// The link of a group to an application profile is found in the same way: it is the first profile that lists the group.
//
// Link-sets that repeat a field of the object itself (the policies of a group) do not grow with others and are stored.

// linkSet is one link-set that is not stored.
type linkSet struct {
	of   func(contivmodel.Object) *contivmodel.LinkSet
	from string // type of the objects in it
	name string // of the set, for those found by index; empty: found by key
}

// linkSets are the link-sets that are not stored, by type.
var linkSets = map[string][]linkSet{
	"tenant": {
		byKey("appProfile", func(t *contivmodel.Tenant) *contivmodel.LinkSet { return &t.LinkSets.AppProfiles }),
		byKey("endpointGroup", func(t *contivmodel.Tenant) *contivmodel.LinkSet { return &t.LinkSets.EndpointGroups }),
		byKey("netprofile", func(t *contivmodel.Tenant) *contivmodel.LinkSet { return &t.LinkSets.NetProfiles }),
		byKey("network", func(t *contivmodel.Tenant) *contivmodel.LinkSet { return &t.LinkSets.Networks }),
		byKey("policy", func(t *contivmodel.Tenant) *contivmodel.LinkSet { return &t.LinkSets.Policies }),
		byKey("serviceLB", func(t *contivmodel.Tenant) *contivmodel.LinkSet { return &t.LinkSets.Servicelbs }),
	},
	"policy": {
		byKey("rule", func(p *contivmodel.Policy) *contivmodel.LinkSet { return &p.LinkSets.Rules }),
		byIndex("endpointGroup", "EndpointGroups", func(p *contivmodel.Policy) *contivmodel.LinkSet { return &p.LinkSets.EndpointGroups }),
	},
	"network": {
		byIndex("endpointGroup", "EndpointGroups", func(n *contivmodel.Network) *contivmodel.LinkSet { return &n.LinkSets.EndpointGroups }),
		byIndex("serviceLB", "Servicelbs", func(n *contivmodel.Network) *contivmodel.LinkSet { return &n.LinkSets.Servicelbs }),
	},
	"endpointGroup": {
		byIndex("rule", "MatchRules", func(g *contivmodel.EndpointGroup) *contivmodel.LinkSet { return &g.LinkSets.MatchRules }),
	},
	"netprofile": {
		byIndex("endpointGroup", "EndpointGroups", func(n *contivmodel.Netprofile) *contivmodel.LinkSet { return &n.LinkSets.EndpointGroups }),
	},
	"extContractsGroup": {
		byIndex("endpointGroup", "EndpointGroups", func(e *contivmodel.ExtContractsGroup) *contivmodel.LinkSet { return &e.LinkSets.EndpointGroups }),
	},
}

func byKey[T any, P contivmodel.Pointer[T]](from string, of func(P) *contivmodel.LinkSet) linkSet {
	return byIndex(from, "", of)
}

func byIndex[T any, P contivmodel.Pointer[T]](from, name string, of func(P) *contivmodel.LinkSet) linkSet {
	return linkSet{func(o contivmodel.Object) *contivmodel.LinkSet { return of(o.(P)) }, from, name}
}

// Complete fills in the link-sets of an object that are not stored.
func Complete(r ledger.Reader, o contivmodel.Object) {
	for _, set := range linkSets[o.ModelType()] {
		*set.of(o) = set.members(r, o)
	}
	if group, ok := o.(*contivmodel.EndpointGroup); ok {
		group.Links.AppProfile = contivmodel.Link{}
		if profiles := keysOf(r, link("endpointGroup", o.ModelKey(), "AppProfile"), "appProfile"); len(profiles) > 0 {
			group.Links.AppProfile = contivmodel.Link{Type: "appProfile", Key: profiles[0]}
		}
	}
}

// members returns the links that belong into the set of an object.
func (s linkSet) members(r ledger.Reader, o contivmodel.Object) contivmodel.LinkSet {
	var links contivmodel.LinkSet
	prefix := mastercfg.ModelKey(s.from, "")
	add := func(key string) bool {
		if links == nil {
			links = contivmodel.LinkSet{}
		}
		key = key[len(prefix):]
		links[key] = contivmodel.Link{Type: s.from, Key: key}
		return true
	}
	if s.name == "" {
		r.Range(prefix+o.ModelKey()+":", func(key string, _ []byte) bool { return add(key) })
	} else {
		found(r, link(o.ModelType(), o.ModelKey(), s.name), add)
	}
	return links
}

// withoutLinkSets calls store with empty link-sets in place of those that are not stored.
func withoutLinkSets(o contivmodel.Object, store func() error) error {
	for _, set := range linkSets[o.ModelType()] {
		links := set.of(o)
		full := *links
		*links = nil
		defer func() { *links = full }()
	}
	if group, ok := o.(*contivmodel.EndpointGroup); ok {
		profile := group.Links.AppProfile
		group.Links.AppProfile = contivmodel.Link{}
		defer func() { group.Links.AppProfile = profile }()
	}
	return store()
}

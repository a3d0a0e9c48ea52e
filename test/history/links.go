package history

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// relations are the links of one object: types and keys of the linked objects, by name.
type relations map[string]map[contivmodel.Link]bool

func (r relations) add(name, typ, key string) {
	if r[name] == nil {
		r[name] = map[contivmodel.Link]bool{}
	}
	r[name][contivmodel.Link{Type: typ, Key: key}] = true
}

// web has all relations, by type and key of the object. Each link is entered at both ends, so that comparing with
// it checks symmetry.
type web map[contivmodel.Link]relations

func (w web) tie(from contivmodel.Object, name string, to contivmodel.Link, back string) {
	own := contivmodel.LinkTo(from)
	for _, end := range []struct {
		at   contivmodel.Link
		name string
		to   contivmodel.Link
	}{{own, name, to}, {to, back, own}} {
		if w[end.at] == nil {
			w[end.at] = relations{}
		}
		if end.name != "" {
			w[end.at].add(end.name, end.to.Type, end.to.Key)
		}
	}
}

// weave returns the relations that follow from the fields of all objects.
func weave(w *World) web {
	web := web{}
	ties(w, web.tie)
	return web
}

// ties calls tie for each relation that follows from the fields of an object: its name at that object, the other
// object, and its name there.
func ties(w *World, tie func(from contivmodel.Object, name string, to contivmodel.Link, back string)) {
	to := func(typ, tenant, name string) contivmodel.Link {
		return contivmodel.Link{Type: typ, Key: tenant + ":" + name}
	}
	tenant := func(o contivmodel.Object, name, set string) {
		tie(o, "Tenant", contivmodel.Link{Type: "tenant", Key: name}, set)
	}
	for _, n := range all[contivmodel.Network](w) {
		tenant(n, n.TenantName, "Networks")
	}
	for _, g := range all[contivmodel.EndpointGroup](w) {
		tenant(g, g.TenantName, "EndpointGroups")
		tie(g, "Network", to("network", g.TenantName, g.NetworkName), "EndpointGroups")
		for _, p := range g.Policies {
			tie(g, "Policies", to("policy", g.TenantName, p), "EndpointGroups")
		}
		for _, x := range g.ExtContractsGrps {
			tie(g, "ExtContractsGrps", to("extContractsGroup", g.TenantName, x), "EndpointGroups")
		}
		if g.NetProfile != "" {
			tie(g, "NetProfile", to("netprofile", g.TenantName, g.NetProfile), "EndpointGroups")
		}
	}
	for _, p := range all[contivmodel.Policy](w) {
		tenant(p, p.TenantName, "Policies")
	}
	for _, r := range all[contivmodel.Rule](w) {
		tie(r, "Policies", to("policy", r.TenantName, r.PolicyName), "Rules")
		if peer := to("endpointGroup", r.TenantName, orText(r.FromEndpointGroup, r.ToEndpointGroup)); w.has(peer.Type, peer.Key) {
			tie(r, "MatchEndpointGroup", peer, "MatchRules")
		}
	}
	for _, p := range all[contivmodel.Netprofile](w) {
		tenant(p, p.TenantName, "NetProfiles")
	}
	for _, s := range all[contivmodel.ServiceLB](w) {
		tenant(s, s.TenantName, "Servicelbs")
		tie(s, "Network", to("network", s.TenantName, s.NetworkName), "Servicelbs")
	}
	for _, a := range all[contivmodel.AppProfile](w) {
		tenant(a, a.TenantName, "AppProfiles")
		for _, g := range a.EndpointGroups {
			tie(a, "EndpointGroups", to("endpointGroup", a.TenantName, g), "AppProfile")
		}
	}
}

// Links compares the links of objects with the required ones. Stored objects may omit link-sets to objects that
// refer to them; responses to clients may omit nothing.
func Links(w *World, objects []contivmodel.Object, answered bool) []string {
	web := weave(w)
	var found []string
	for _, o := range objects {
		wanted, has := web[contivmodel.LinkTo(o)], relations{}
		for _, r := range contivmodel.Relations(o) {
			for _, link := range r.Links {
				has.add(r.Name, link.Type, link.Key)
				if !wanted[r.Name][link] {
					found = append(found, fmt.Sprintf("%s %s: %s has %s, which it must not", o.ModelType(), o.ModelKey(), r.Name, link.Key))
				}
			}
		}
		for name, links := range wanted {
			for link := range links {
				if name == "AppProfile" && len(has[name]) == 1 {
					continue // a group in several profiles is linked to one of them
				}
				if !has[name][link] && (answered || forward[o.ModelType()][name]) {
					found = append(found, fmt.Sprintf("%s %s: %s lacks %s", o.ModelType(), o.ModelKey(), name, link.Key))
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

// forward are the relations that are stored with objects.
var forward = map[string]map[string]bool{
	"network":       {"Tenant": true},
	"endpointGroup": {"Tenant": true, "Network": true, "NetProfile": true, "Policies": true, "ExtContractsGrps": true},
	"policy":        {"Tenant": true},
	"rule":          {"MatchEndpointGroup": true, "Policies": true},
	"netprofile":    {"Tenant": true},
	"serviceLB":     {"Tenant": true, "Network": true},
	"appProfile":    {"Tenant": true, "EndpointGroups": true},
}

// stored returns all objects of the store.
func (w *World) stored() []contivmodel.Object {
	var list []contivmodel.Object
	for _, typ := range slices.Sorted(maps.Keys(w.objects)) {
		for _, key := range slices.Sorted(maps.Keys(w.objects[typ])) {
			if o := w.objects[typ][key]; o != nil {
				list = append(list, o)
			}
		}
	}
	return list
}

// References reports references to missing objects, and overlapping networks: of one tenant, or on VLANs.
func References(w *World) []string {
	var found []string
	ties(w, func(from contivmodel.Object, _ string, to contivmodel.Link, back string) {
		if !w.has(to.Type, to.Key) {
			found = append(found, fmt.Sprintf("%s %s is gone, but belongs to %s of %s %s", to.Type, to.Key, back, from.ModelType(), from.ModelKey()))
		}
	})
	for _, ep := range w.endpoints(func(*mastercfg.CfgEndpointState) bool { return true }) {
		if ep.EndpointGroupKey != "" && w.Raw[groupPrefix+ep.EndpointGroupKey] == nil {
			found = append(found, fmt.Sprintf("group %s is gone, but has endpoint %s", ep.EndpointGroupKey, ep.ID))
		}
	}
	networks := all[contivmodel.Network](w)
	for i, a := range networks {
		for _, b := range networks[:i] {
			together := a.TenantName == b.TenantName || a.Encap == "vlan" && b.Encap == "vlan" // the latter are routed outside
			if together && (overlap4(a, b) || overlap6(a, b)) {
				found = append(found, fmt.Sprintf("networks %s and %s overlap", a.Key, b.Key))
			}
		}
	}
	slices.Sort(found)
	return found
}

func overlap4(a, b *contivmodel.Network) bool {
	x, y := parseSubnet(a.Subnet, ""), parseSubnet(b.Subnet, "")
	return !x.last.Less(y.first) && !y.last.Less(x.first)
}

func overlap6(a, b *contivmodel.Network) bool {
	x, err := netip.ParsePrefix(a.Ipv6Subnet)
	y, err2 := netip.ParsePrefix(b.Ipv6Subnet)
	return err == nil && err2 == nil && x.Overlaps(y)
}

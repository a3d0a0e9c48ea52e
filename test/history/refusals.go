package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// refusal is one kind of refusal, with the condition that justifies it. A refusal that is not in the table is a
// finding.
type refusal struct {
	verb  Verb
	typ   string // empty: any
	kind  fault.Kind
	says  string // part of the text; empty: any
	cause func(*Evidence, *Call) bool
}

// is reports whether a call was refused in this way.
func (r refusal) is(c *Call) bool {
	return r.verb == c.Verb && (r.typ == "" || r.typ == c.Type) && (r.kind == c.Kind || c.Kind == anyKind) && strings.Contains(c.Message, r.says)
}

var refusals = []refusal{
	{Get, "", fault.NotFound, " not found", ownAway},
	{Delete, "", fault.NotFound, " not found", ownAway},
	{Post, "", fault.Invalid, "", wrong},
	{Post, "", fault.MissingReference, "Tenant not found", tenantAway},
	{Post, "", fault.Conflict, "has changed since revision", outdated},
	{Post, "", fault.Conflict, "does not exist any more", ownAway},
	{Post, "", fault.Conflict, "exists already", ownPresent},
	{Delete, "", fault.Conflict, "has changed since revision", outdated},

	{Post, "tenant", fault.Immutable, "Cant change tenant parameters", ownPresent},
	{Delete, "tenant", fault.InUse, "annot delete", tenantInUse},

	{Post, "network", fault.Immutable, "Cant change network parameters", ownPresent},
	{Post, "network", fault.Conflict, "conflicts with subnetv6", overlapping(overlap6)},
	{Post, "network", fault.Conflict, "conflicts with subnet ", overlapping(overlap4)},
	{Post, "network", fault.Conflict, "share the addresses outside", sharingOutside},
	{Post, "network", fault.Conflict, "conflicts with the network name", twin("endpointGroup")},
	{Post, "network", fault.Conflict, "requested vlan not available", tagTaken(vlanTags)},
	{Post, "network", fault.Conflict, "requested vxlan is out of range", tagTaken(vxlanTags)},
	{Post, "network", fault.Conflict, "requested vxlan not available", tagTaken(vxlanTags)},
	{Post, "network", fault.InUse, "of a deleted network", networkHasEndpoints},
	{Post, "network", fault.Exhausted, "no vlans available", tagsExhausted(vlanTags)},
	{Post, "network", fault.Exhausted, "no vxlans available", tagsExhausted(vxlanTags)},
	{Delete, "network", fault.InUse, "endpoint groups", usesNetwork(func(g *contivmodel.EndpointGroup) string { return g.NetworkName })},
	{Delete, "network", fault.InUse, "services", usesNetwork(func(s *contivmodel.ServiceLB) string { return s.NetworkName })},
	{Delete, "network", fault.InUse, "active endpoints", networkHasEndpoints},

	{Post, "endpointGroup", fault.MissingReference, "Network ", networkAway},
	{Post, "endpointGroup", fault.MissingReference, "Policy not found", anyAway("policy", func(g *contivmodel.EndpointGroup) []string { return g.Policies })},
	{Post, "endpointGroup", fault.MissingReference, "netprofile not found", anyAway("netprofile", func(g *contivmodel.EndpointGroup) []string { return []string{g.NetProfile} })},
	{Post, "endpointGroup", fault.MissingReference, "External contracts group", anyAway("extContractsGroup", func(g *contivmodel.EndpointGroup) []string { return g.ExtContractsGrps })},
	{Post, "endpointGroup", fault.Conflict, "conflicts with the endpointGroup name", twin("network")},
	{Post, "endpointGroup", fault.Conflict, "is not available", poolTaken},
	{Post, "endpointGroup", fault.Invalid, "must be a subset of network", poolOutside},
	{Post, "endpointGroup", fault.Immutable, "Cannot change network association", differs(func(a, b *contivmodel.EndpointGroup) bool { return a.NetworkName != b.NetworkName })},
	{Post, "endpointGroup", fault.Immutable, "Cannot change IP pool", differs(func(a, b *contivmodel.EndpointGroup) bool { return a.IPPool != b.IPPool })},
	{Post, "endpointGroup", fault.Immutable, "Cannot change the tag", differs(func(a, b *contivmodel.EndpointGroup) bool { return a.CfgdTag != b.CfgdTag })},
	{Delete, "endpointGroup", fault.InUse, "active endpoints", groupHasEndpoints},
	{Delete, "endpointGroup", fault.InUse, "associated to appProfile", groupInProfile},

	{Delete, "policy", fault.InUse, "Policy is being used", groupNames(func(g *contivmodel.EndpointGroup) []string { return g.Policies })},

	{Post, "rule", fault.Immutable, "can not update a rule", ownPresent},
	{Post, "rule", fault.MissingReference, "Policy not found", policyAway},
	{Post, "rule", fault.MissingReference, "endpoint group not found", anyAway("endpointGroup", func(r *contivmodel.Rule) []string { return []string{r.FromEndpointGroup, r.ToEndpointGroup} })},
	{Post, "rule", fault.MissingReference, " Network not found", anyAway("network", func(r *contivmodel.Rule) []string { return []string{r.FromNetwork, r.ToNetwork} })},
	{Post, "rule", fault.Invalid, "failed to configure", notOwnAddress},

	{Delete, "netprofile", fault.InUse, "NetProfile is being used", groupNames(func(g *contivmodel.EndpointGroup) []string { return []string{g.NetProfile} })},
	{Post, "extContractsGroup", fault.Immutable, "external contracts update not supported", ownPresent},
	{Delete, "extContractsGroup", fault.InUse, "in-use", groupNames(func(g *contivmodel.EndpointGroup) []string { return g.ExtContractsGrps })},
	{Post, "appProfile", fault.MissingReference, "EndpointGroup ", anyAway("endpointGroup", func(a *contivmodel.AppProfile) []string { return a.EndpointGroups })},

	{Post, "Bgp", fault.Conflict, "is that of node", routerTaken},

	{Delete, "aciGw", fault.InUse, "App-Profiles found", anyProfile},

	{Post, "serviceLB", fault.MissingReference, "Network ", networkAway},
	{Post, "serviceLB", fault.Exhausted, "exhaustion in subnet", addressesExhausted},
	{Post, "serviceLB", fault.Conflict, "requested address", addressTaken},
	{Post, "serviceLB", fault.Invalid, "is not in subnet", addressOutside},

	{Post, "global", fault.InUse, "cannot update the vlan range", tagsOutside},
	{Post, "global", fault.InUse, "cannot update the vxlan range", tagsOutside},
	{Post, "global", fault.InUse, "Unable to update private subnet", anyNetwork},

	{CreateEndpoint, "", fault.MissingReference, "key not found", endpointHomeless},
	{CreateEndpoint, "", fault.Invalid, "belongs to network", groupElsewhere},
	{CreateEndpoint, "", fault.Invalid, "is not in subnet", addressOutside},
	{CreateEndpoint, "", fault.Invalid, "ipv6", ipv6Outside},
	{CreateEndpoint, "", fault.Exhausted, "address exhaustion", addressesExhausted},
	{CreateEndpoint, "", fault.Exhausted, "Reached MaxHosts", ipv6Exhausted},
	{CreateEndpoint, "", fault.Conflict, "requested address", addressTaken},
	{CreateEndpoint, "", fault.Conflict, "requested ipv6 address", addressTaken},
	{DeleteEndpoint, "", fault.NotFound, "key not found", ownAway},
	{UpdateEndpoint, "", fault.NotFound, "key not found", containerAway},
	{UpdateEndpoint, "", fault.MissingReference, "key not found", endpointHomeless},

	{AllocAddress, "", fault.NotFound, "key not found", endpointHomeless},
	{AllocAddress, "", fault.Exhausted, "address exhaustion", addressesExhausted},
	{AllocAddress, "", fault.Exhausted, "Reached MaxHosts", ipv6Exhausted},
	{AllocAddress, "", fault.Conflict, "requested address", addressTaken},
	{AllocAddress, "", fault.Invalid, "is not in subnet", addressOutside},
	{AllocAddress, "", fault.Invalid, "subnet length 0", ipv6Outside},
	{ReleaseAddress, "", fault.NotFound, "key not found", endpointHomeless},
}

// Justified reports the unjustified refusals.
func Justified(e *Evidence) []string {
	var found []string
	for _, c := range e.calls {
		if c.Outcome != Refused {
			continue
		}
		said := func(r refusal) bool { return r.is(c) }
		holds := func(r refusal) bool { return said(r) && r.cause(e, c) }
		switch {
		case !slices.ContainsFunc(refusals, said):
			found = append(found, fmt.Sprintf("refused in a way that is not documented: %s", c))
		case !slices.ContainsFunc(refusals, holds):
			found = append(found, fmt.Sprintf("refused without cause: %s%s", c, e.meanwhile(c)))
		}
	}
	return found
}

// meanwhile lists what succeeded, or may have, during a call, so that a reader can find the reason of the refusal.
// Rules are omitted: they are many and cause no refusals.
func (e *Evidence) meanwhile(c *Call) string {
	var text strings.Builder
	for _, other := range e.calls {
		if other.Verb == Get || other.Type == "rule" {
			continue
		}
		if other.Outcome == Done && other.Revision >= c.From && other.Revision <= c.To || other.Outcome == Unknown && other.Start < c.End {
			fmt.Fprintf(&text, "\n\t%s", other)
		}
	}
	return text.String()
}

func wrong(_ *Evidence, c *Call) bool      { return c.Wrong != "" }
func ownAway(e *Evidence, c *Call) bool    { return e.away(c, c.storeKey()) }
func ownPresent(e *Evidence, c *Call) bool { return e.present(c, c.storeKey()) }
func tenantAway(e *Evidence, c *Call) bool { return e.away(c, modelKey("tenant", tenantOf(c.Key))) }
func twin(typ string) func(*Evidence, *Call) bool {
	return func(e *Evidence, c *Call) bool { return e.present(c, modelKey(typ, c.Key)) }
}

// tenantInUse: an object of the tenant may have existed.
func tenantInUse(e *Evidence, c *Call) bool {
	if c.mate(func(m *Call) bool { return m.Verb == Post && tenantOf(m.Key) == c.Key }) {
		return true
	}
	for _, typ := range []string{"appProfile", "endpointGroup", "policy", "netprofile", "network", "serviceLB", "extContractsGroup"} {
		for _, key := range e.log.Keys(modelKey(typ, c.Key+":")) {
			if e.present(c, key) {
				return true
			}
		}
	}
	return false
}

func overlapping(overlap func(a, b *contivmodel.Network) bool) func(*Evidence, *Call) bool {
	return func(e *Evidence, c *Call) bool {
		return some(e, c, tenantOf(c.Key), func(n *contivmodel.Network) bool { return overlap(n, c.Object.(*contivmodel.Network)) })
	}
}

// sharingOutside: a network on a VLAN, of any tenant, may have had an address of this one.
func sharingOutside(e *Evidence, c *Call) bool {
	wanted := c.Object.(*contivmodel.Network)
	return wanted.Encap == "vlan" && some(e, c, "", func(n *contivmodel.Network) bool {
		return n.Encap == "vlan" && (overlap4(n, wanted) || overlap6(n, wanted))
	})
}

// usesNetwork: an object of the tenant may have referred to the network.
func usesNetwork[T any, P interface {
	*T
	contivmodel.Object
}](network func(P) string) func(*Evidence, *Call) bool {
	return func(e *Evidence, c *Call) bool {
		return some(e, c, tenantOf(c.Key), func(o P) bool { return tenantOf(c.Key)+":"+network(o) == c.Key })
	}
}

// anyAway: one of the objects in the request may have been absent.
func anyAway[T any, P interface {
	*T
	contivmodel.Object
}](typ string, names func(P) []string) func(*Evidence, *Call) bool {
	return func(e *Evidence, c *Call) bool {
		return slices.ContainsFunc(names(c.Object.(P)), func(name string) bool {
			return name != "" && e.away(c, modelKey(typ, tenantOf(c.Key)+":"+name))
		})
	}
}

// routerTaken: the speaker of another node may have had the address.
func routerTaken(e *Evidence, c *Call) bool {
	wanted := c.Object.(*contivmodel.Bgp)
	return some(e, c, "", func(b *contivmodel.Bgp) bool { return b.Hostname != wanted.Hostname && b.Routerip == wanted.Routerip })
}

func networkAway(e *Evidence, c *Call) bool {
	name := ""
	switch o := c.Object.(type) {
	case *contivmodel.EndpointGroup:
		name = o.NetworkName
	case *contivmodel.ServiceLB:
		name = o.NetworkName
	}
	return e.away(c, modelKey("network", tenantOf(c.Key)+":"+name))
}

func policyAway(e *Evidence, c *Call) bool {
	return e.away(c, modelKey("policy", c.Key[:strings.LastIndex(c.Key, ":")]))
}

// differs: a stored group may have had another value than the request.
func differs(differ func(a, b *contivmodel.EndpointGroup) bool) func(*Evidence, *Call) bool {
	return func(e *Evidence, c *Call) bool {
		return some(e, c, tenantOf(c.Key), func(g *contivmodel.EndpointGroup) bool {
			return g.ModelKey() == c.Key && differ(g, c.Object.(*contivmodel.EndpointGroup))
		})
	}
}

// groupNames: a group of the tenant may have referred to the object.
func groupNames(names func(*contivmodel.EndpointGroup) []string) func(*Evidence, *Call) bool {
	return func(e *Evidence, c *Call) bool {
		return some(e, c, tenantOf(c.Key), func(g *contivmodel.EndpointGroup) bool {
			return slices.ContainsFunc(names(g), func(name string) bool { return tenantOf(c.Key)+":"+name == c.Key })
		})
	}
}

func groupInProfile(e *Evidence, c *Call) bool {
	return some(e, c, tenantOf(c.Key), func(a *contivmodel.AppProfile) bool {
		return slices.ContainsFunc(a.EndpointGroups, func(g string) bool { return a.TenantName+":"+g == c.Key })
	})
}

// reversed converts a model key T:N to a state id, N and T joined.
func reversed(key, joint string) string {
	tenant, name, _ := strings.Cut(key, ":")
	return name + joint + tenant
}

func networkHasEndpoints(e *Evidence, c *Call) bool {
	return someEndpoint(e, c, reversed(c.Key, "."), func(*mastercfg.CfgEndpointState) bool { return true })
}

func groupHasEndpoints(e *Evidence, c *Call) bool {
	return some(e, c, tenantOf(c.Key), func(n *contivmodel.Network) bool {
		return someEndpoint(e, c, reversed(n.ModelKey(), "."), func(ep *mastercfg.CfgEndpointState) bool {
			return ep.EndpointGroupKey == reversed(c.Key, ":")
		})
	})
}

func anyProfile(e *Evidence, c *Call) bool {
	return some(e, c, "", func(*contivmodel.AppProfile) bool { return true })
}

func anyNetwork(e *Evidence, c *Call) bool {
	return some(e, c, "", func(*contivmodel.Network) bool { return true })
}

// notOwnAddress: an incoming rule for one endpoint requires its policy to be on exactly one group, which has that
// endpoint. That was not so at some moment unless one group with the policy and one endpoint existed during the
// whole call.
func notOwnAddress(e *Evidence, c *Call) bool {
	r := c.Object.(*contivmodel.Rule)
	var with []*contivmodel.EndpointGroup
	some(e, c, r.TenantName, func(g *contivmodel.EndpointGroup) bool {
		if slices.Contains(g.Policies, r.PolicyName) {
			with = append(with, g)
		}
		return false
	})
	if len(with) != 1 || !e.lasting(c, modelKey("endpointGroup", with[0].ModelKey())) {
		return true
	}
	id := with[0].NetworkName + "." + r.TenantName
	for _, key := range e.log.Keys(endpointPrefix + id + "-") {
		var ep mastercfg.CfgEndpointState
		if e.lasting(c, key) && json.Unmarshal(e.log.At(key, c.From), &ep) == nil &&
			ep.IPAddress == r.ToIPAddress && ep.EndpointGroupKey == reversed(with[0].ModelKey(), ":") {
			return false
		}
	}
	return true
}

// lasting reports whether a key had the same value during the whole call.
func (e *Evidence) lasting(c *Call, key string) bool {
	return !e.away(c, key) && len(e.log.Alive(key, c.From, c.To)) == 1
}

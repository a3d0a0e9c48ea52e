package api

import (
	"maps"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

func createPolicy(c *change, p *contivmodel.Policy) error {
	tenant, err := tenantOf(c, p.TenantName)
	if err != nil {
		return err
	}
	p.Links.Tenant = contivmodel.LinkTo(tenant)
	return master.Put(c.Tx, p)
}

// updatePolicy accepts everything and changes nothing: a policy is only a name.
func updatePolicy(_ *change, _, _ *contivmodel.Policy) error { return nil }

func removePolicy(c *change, p *contivmodel.Policy) error {
	if links := p.LinkSets.EndpointGroups; len(links) > 0 {
		return fault.New(fault.InUse, "Policy is being used").WithDetails(names(links)...)
	}
	for _, key := range keys(p.LinkSets.Rules) {
		rule, err := master.Get[contivmodel.Rule](c, key, nil)
		if err != nil {
			return err
		}
		if rule == nil {
			continue
		}
		master.Drop(c.Tx, rule)
	}
	master.Drop(c.Tx, p)
	return nil
}

func inspectPolicy(r *view, p *contivmodel.Policy) (any, error) {
	networks := map[string]bool{}
	var groups []string
	for key := range p.LinkSets.EndpointGroups {
		g, err := master.Get[contivmodel.EndpointGroup](r, key, notFound("endpointGroup"))
		if err != nil {
			return nil, err
		}
		networks[mastercfg.NetworkID(g.TenantName, g.NetworkName)] = true
		groups = append(groups, mastercfg.EndpointGroupID(g.TenantName, g.GroupName))
	}
	_, byGroup, err := endpointsOf(r, slices.Collect(maps.Keys(networks))...)
	if err != nil {
		return nil, err
	}
	var oper contivmodel.PolicyOper
	for _, group := range groups {
		oper.Endpoints = append(oper.Endpoints, byGroup[group]...)
	}
	slices.SortFunc(oper.Endpoints, func(a, b contivmodel.EndpointOper) int { return strings.Compare(a.EndpointID, b.EndpointID) })
	oper.NumEndpoints = len(oper.Endpoints)
	return contivmodel.PolicyInspect{Config: *p, Oper: oper}, nil
}

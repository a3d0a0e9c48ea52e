package objects

import (
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/jsonstream"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

func createPolicy(c *Change, p *contivmodel.Policy) error {
	tenant, err := tenantOf(c, p.TenantName)
	if err != nil {
		return err
	}
	p.Links.Tenant = contivmodel.LinkTo(tenant)
	return master.Put(c.Tx, p)
}

// updatePolicy accepts everything and changes nothing: a policy is only a name.
func updatePolicy(_ *Change, _, _ *contivmodel.Policy) error { return nil }

func removePolicy(c *Change, p *contivmodel.Policy) error {
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

func inspectPolicy(r *View, p *contivmodel.Policy) (any, error) {
	var members []string // keys of endpoints
	for key := range p.LinkSets.EndpointGroups {
		tenant, group, _ := strings.Cut(key, ":")
		members = append(members, master.MemberKeys(r, mastercfg.EndpointGroupID(tenant, group))...)
	}
	sorted, err := byEndpointID(r, members)
	if err != nil {
		return nil, err
	}
	return inspection(contivmodel.PolicyInspect{Config: *p}, jsonstream.Object{
		Of: contivmodel.PolicyOper{NumEndpoints: len(sorted)}, Late: map[string]any{"endpoints": endpointsAt(r, sorted)},
	}), nil
}

package objects

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
)

// Application profiles are validated and stored, in every fabric mode. The original controller sent them to a
// gateway process on its own host and waited for it with the collection locked. A transaction cannot contain
// that call: it may be repeated, refused with others, or committed by a successor. A program that drives a
// fabric can watch the stored objects instead.
//
// A group may be a member of several profiles and has a link to
// one of them. It cannot be deleted as long as a profile lists it.

func createAppProfile(c *Change, p *contivmodel.AppProfile) error {
	tenant, err := tenantOf(c, p.TenantName)
	if err != nil {
		return err
	}
	p.Links.Tenant = contivmodel.LinkTo(tenant)
	return setMembers(c, p, p.EndpointGroups)
}

func updateAppProfile(c *Change, stored, wanted *contivmodel.AppProfile) error {
	return setMembers(c, stored, wanted.EndpointGroups)
}

// setMembers sets the groups of a profile and stores it.
func setMembers(c *Change, p *contivmodel.AppProfile, groups []string) error {
	p.EndpointGroups, p.LinkSets.EndpointGroups = unique(groups), nil
	for _, name := range p.EndpointGroups {
		group, err := master.Get[contivmodel.EndpointGroup](c, p.TenantName+":"+name, missing("EndpointGroup %s not found", name))
		if err != nil {
			return err
		}
		p.LinkSets.EndpointGroups.Add(group)
	}
	return c.put(p)
}

func removeAppProfile(c *Change, p *contivmodel.AppProfile) error {
	master.Drop(c.Tx, p)
	return nil
}

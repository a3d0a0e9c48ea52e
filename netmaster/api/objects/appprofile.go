package objects

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
)

// Application profiles are stored and checked, in every fabric mode. The
// original controller sent them to a gateway process on its own host and waited
// for it with the collection locked. That call has no place in a transaction,
// which may be repeated, refused with others, or committed by a successor; who
// drives a fabric watches the stored objects instead.
//
// A group may be a member of several profiles and has a link to one of them. It
// cannot be deleted as long as any lists it.

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

// setMembers makes these groups the members of a profile and stores it.
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

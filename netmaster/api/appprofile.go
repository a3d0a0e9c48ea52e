package api

import (
	"slices"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
)

// Application profiles are stored and checked, in every fabric mode. The
// original controller sent them to a gateway process on its own host and waited
// for it with the collection locked. That call has no place in a transaction,
// which may be repeated, refused with others, or committed by a successor; who
// drives a fabric watches the stored objects instead.
//
// A group may be a member of several profiles and has a link to one of them,
// the last that took it in. It cannot be deleted as long as any lists it.

func createAppProfile(c *change, p *contivmodel.AppProfile) error {
	tenant, err := tenantOf(c, p.TenantName)
	if err != nil {
		return err
	}
	p.EndpointGroups = unique(p.EndpointGroups)
	if err := takeIn(c, p, p.EndpointGroups); err != nil {
		return err
	}
	p.Links.Tenant = contivmodel.LinkTo(tenant)
	tenant.LinkSets.AppProfiles.Add(p)
	return c.put(tenant, p)
}

// updateAppProfile changes the members.
func updateAppProfile(c *change, stored, wanted *contivmodel.AppProfile) error {
	members := unique(wanted.EndpointGroups)
	notIn := func(list []string) func(string) bool {
		return func(name string) bool { return slices.Contains(list, name) }
	}
	added := slices.DeleteFunc(slices.Clone(members), notIn(stored.EndpointGroups))
	gone := slices.DeleteFunc(slices.Clone(stored.EndpointGroups), notIn(members))
	if err := takeIn(c, stored, added); err != nil {
		return err
	}
	if err := letGo(c, stored, gone); err != nil {
		return err
	}
	stored.EndpointGroups = members
	return c.put(stored)
}

func removeAppProfile(c *change, p *contivmodel.AppProfile) error {
	tenant, err := tenantOf(c, p.TenantName)
	if err != nil {
		return err
	}
	if err := letGo(c, p, p.EndpointGroups); err != nil {
		return err
	}
	tenant.LinkSets.AppProfiles.Remove(p)
	master.Drop(c.Tx, p)
	return c.put(tenant)
}

// takeIn links groups with a profile, which the caller stores.
func takeIn(c *change, p *contivmodel.AppProfile, groups []string) error {
	for _, name := range groups {
		group, err := master.Get[contivmodel.EndpointGroup](c, p.TenantName+":"+name, missing("EndpointGroup %s not found", name))
		if err != nil {
			return err
		}
		group.Links.AppProfile = contivmodel.LinkTo(p)
		p.LinkSets.EndpointGroups.Add(group)
		if err := c.put(group); err != nil {
			return err
		}
	}
	return nil
}

// letGo is the inverse of takeIn. A group that another profile lists as well is
// linked to that one.
func letGo(c *change, p *contivmodel.AppProfile, groups []string) error {
	for _, name := range groups {
		key := p.TenantName + ":" + name
		delete(p.LinkSets.EndpointGroups, key)
		group, err := master.Get[contivmodel.EndpointGroup](c, key, nil)
		if err != nil {
			return err
		}
		if group == nil || group.Links.AppProfile != contivmodel.LinkTo(p) {
			continue
		}
		if group.Links.AppProfile, err = otherProfile(c, p, name); err != nil {
			return err
		}
		if err := c.put(group); err != nil {
			return err
		}
	}
	return nil
}

// otherProfile links to a profile of the same tenant, other than p, that lists a group.
func otherProfile(c *change, p *contivmodel.AppProfile, group string) (contivmodel.Link, error) {
	tenant, err := tenantOf(c, p.TenantName)
	if err != nil {
		return contivmodel.Link{}, err
	}
	master.Complete(c, tenant)
	for _, key := range keys(tenant.LinkSets.AppProfiles) {
		if key == p.ModelKey() {
			continue
		}
		other, err := master.Get[contivmodel.AppProfile](c, key, nil)
		if err != nil {
			return contivmodel.Link{}, err
		}
		if other != nil && slices.Contains(other.EndpointGroups, group) {
			return contivmodel.LinkTo(other), nil
		}
	}
	return contivmodel.Link{}, nil
}

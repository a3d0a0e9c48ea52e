package api

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// setNetProfile applies a profile to a group, or clears the present one with
// an empty name, and links both sides. The caller stores the group; rec is nil
// when its record is gone.
func setNetProfile(c *change, g *contivmodel.EndpointGroup, rec *mastercfg.EndpointGroupState, name string) error {
	if old := g.Links.NetProfile.Key; old != "" {
		profile, err := master.Get[contivmodel.Netprofile](c, old, nil)
		if err != nil {
			return err
		}
		if profile != nil {
			profile.LinkSets.EndpointGroups.Remove(g)
			if err := master.Put(c.Tx, profile); err != nil {
				return err
			}
		}
	}
	g.NetProfile, g.Links.NetProfile = name, contivmodel.Link{}
	var profile *contivmodel.Netprofile
	if name != "" {
		var err error
		profile, err = master.Get[contivmodel.Netprofile](c, g.TenantName+":"+name, missing("netprofile not found"))
		if err != nil {
			return err
		}
		g.Links.NetProfile = contivmodel.LinkTo(profile)
		profile.LinkSets.EndpointGroups.Add(g)
		if err := master.Put(c.Tx, profile); err != nil {
			return err
		}
	}
	if rec == nil {
		return nil
	}
	master.ApplyNetProfile(rec, profile)
	return master.PutGroup(c.Tx, rec)
}

// linkContracts links a group with external contract groups; the caller stores the group.
func linkContracts(c *change, g *contivmodel.EndpointGroup, contracts []string) error {
	for _, name := range contracts {
		contract, err := master.Get[contivmodel.ExtContractsGroup](c, g.TenantName+":"+name,
			missing("External contracts group %s not found", name))
		if err != nil {
			return err
		}
		contract.LinkSets.EndpointGroups.Add(g)
		g.LinkSets.ExtContractsGrps.Add(contract)
		if err := master.Put(c.Tx, contract); err != nil {
			return err
		}
	}
	g.ExtContractsGrps = contracts
	return nil
}

// unlinkContracts is the inverse of linkContracts for all a group has.
func unlinkContracts(c *change, g *contivmodel.EndpointGroup) error {
	for _, key := range keys(g.LinkSets.ExtContractsGrps) {
		contract, err := master.Get[contivmodel.ExtContractsGroup](c, key, nil)
		if err != nil {
			return err
		}
		if contract == nil {
			continue
		}
		contract.LinkSets.EndpointGroups.Remove(g)
		if err := master.Put(c.Tx, contract); err != nil {
			return err
		}
	}
	g.LinkSets.ExtContractsGrps = nil
	return nil
}

package objects

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// setNetProfile applies a profile to a group, or clears the present one with
// an empty name. The caller stores the group.
func setNetProfile(c *Change, g *contivmodel.EndpointGroup, rec *mastercfg.EndpointGroupState, name string) error {
	g.NetProfile, g.Links.NetProfile = name, contivmodel.Link{}
	var profile *contivmodel.Netprofile
	if name != "" {
		var err error
		profile, err = master.Get[contivmodel.Netprofile](c, g.TenantName+":"+name,
			missing("netprofile not found").WithExplanation("netprofile not found: %s of tenant %s", name, g.TenantName))
		if err != nil {
			return err
		}
		g.Links.NetProfile = contivmodel.LinkTo(profile)
	}
	master.ApplyNetProfile(rec, profile)
	return master.PutGroup(c.Tx, rec)
}

// linkContracts links a group with exactly these external contract groups; the
// caller stores the group.
func linkContracts(c *Change, g *contivmodel.EndpointGroup, contracts []string) error {
	g.LinkSets.ExtContractsGrps = nil
	for _, name := range unique(contracts) {
		contract, err := master.GetShared[contivmodel.ExtContractsGroup](c, g.TenantName+":"+name,
			missing("External contracts group %s not found", name))
		if err != nil {
			return err
		}
		g.LinkSets.ExtContractsGrps.Add(contract)
	}
	g.ExtContractsGrps = contracts
	return nil
}

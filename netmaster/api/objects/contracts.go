package objects

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/utils/fault"
)

// External contract groups name contracts of the fabric. They have no
// state records; a tenant finds its own by their keys (belowTenant).

func createContracts(c *Change, e *contivmodel.ExtContractsGroup) error {
	if e.ContractsType != "provided" && e.ContractsType != "consumed" {
		return fault.New(fault.Invalid, "Contracts group need to be either 'provided' or 'consumed'").WithField("contractsType").
			WithExplanation("contractsType %.80q: want provided or consumed", e.ContractsType)
	}
	if _, err := tenantOf(c, e.TenantName); err != nil {
		return err
	}
	return c.put(e)
}

func updateContracts(_ *Change, _, _ *contivmodel.ExtContractsGroup) error {
	return fault.New(fault.Immutable, "external contracts update not supported")
}

func removeContracts(c *Change, e *contivmodel.ExtContractsGroup) error {
	if links := e.LinkSets.EndpointGroups; len(links) > 0 {
		return fault.New(fault.InUse, "External contracts group is in-use").WithDetails(names(links)...)
	}
	master.Drop(c.Tx, e)
	return nil
}

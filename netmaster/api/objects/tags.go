package objects

import (
	"errors"
	"fmt"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/utils/fault"
)

// refusedTag adds the tag and its owner to the refusal of a network's tag. Callers with rights in tenants only do
// not get the name of another tenant's network.
func refusedTag(c *Change, n *contivmodel.Network, err error) error {
	refused, is := errors.AsType[*fault.Error](err)
	if !is || refused.Kind != fault.Conflict || refused.Field != "pktTag" {
		return err
	}
	pool, rangeOf := "vxlans", ""
	if n.Encap == "vlan" {
		pool = "vlans"
	}
	g, err := master.GetShared[contivmodel.Global](c, contivmodel.GlobalName, refused)
	if err != nil {
		return err
	}
	if rangeOf = g.Vxlans; pool == "vlans" {
		rangeOf = g.Vlans
	}
	tenant, network := master.NetworkWithTag(c, n.Encap, n.PktTag)
	bounded, err := c.ofTenants()
	why := fmt.Sprintf("is that of network %s of tenant %s", network, tenant)
	switch {
	case err != nil:
		return err
	case network == "":
		why = fmt.Sprintf("is none of the %s of the cluster, %s (netctl global info)", pool, rangeOf)
	case bounded && tenant != n.TenantName:
		why = "is that of a network of another tenant"
	default:
		refused = refused.WithDetails("network " + tenant + ":" + network)
	}
	return refused.WithExplanation("%s: pktTag %d %s", refused.Message, n.PktTag, why)
}

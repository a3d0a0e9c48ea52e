package master

import (
	"net/netip"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Takes returns an error if an endpoint, with its addresses, cannot belong to a group: the group's range has
// other addresses. An empty group id means none, which is always possible.
func Takes(r ledger.Reader, ep *mastercfg.CfgEndpointState, groupID string) error {
	if groupID == "" {
		return nil
	}
	group, err := GetGroup(r, groupID)
	if err != nil || group.IPPool == "" || ep.IPAddress == "" {
		return err
	}
	first, last, err := resources.ParsePool(group.IPPool)
	if err != nil {
		return err
	}
	if own, err := netip.ParseAddr(ep.IPAddress); err != nil || own.Less(first) || last.Less(own) {
		return fault.New(fault.Conflict, "address %s is not in range %s of group %s", ep.IPAddress, group.IPPool, group.GroupName)
	}
	return nil
}

// MoveEndpoint moves an endpoint to another group that accepts it, or with an empty group id to none. It keeps its
// addresses.
func MoveEndpoint(tx *ledger.Tx, ep mastercfg.CfgEndpointState, groupID string) error {
	ep.ServiceName, ep.EndpointGroupKey, ep.EndpointGroupID = "", "", 0
	if groupID != "" {
		group, err := GetGroup(tx, groupID)
		if err != nil {
			return err
		}
		ep.ServiceName, ep.EndpointGroupKey, ep.EndpointGroupID = group.GroupName, group.ID, group.EndpointGroupID
	}
	return putEndpoint(tx, &ep)
}

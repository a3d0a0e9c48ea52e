package master

import (
	"net/netip"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// DeriveGroup writes the record of a new group: its id, the tags of its
// network, and its address range if it reserves one.
func DeriveGroup(tx *ledger.Tx, g *contivmodel.EndpointGroup) (*mastercfg.EndpointGroupState, error) {
	network, err := GetNetwork(tx, mastercfg.NetworkID(g.TenantName, g.NetworkName))
	if err != nil {
		return nil, err
	}
	id := mastercfg.EndpointGroupID(g.TenantName, g.GroupName)
	rec := &mastercfg.EndpointGroupState{
		ID: id, GroupName: g.GroupName, TenantName: g.TenantName, NetworkName: g.NetworkName,
		PktTagType: network.PktTagType, PktTag: network.PktTag, ExtPktTag: network.ExtPktTag, GroupTag: g.CfgdTag,
	}
	if rec.GroupTag == "" {
		rec.GroupTag = g.GroupName + "." + g.TenantName
	}
	if g.IPPool != "" {
		if err := resources.ReserveGroupPool(&network, rec, g.IPPool); err != nil {
			return nil, err
		}
		if err := putNetwork(tx, &network); err != nil {
			return nil, err
		}
	}
	ids, err := groupIDs(tx)
	if err != nil {
		return nil, err
	}
	if rec.EndpointGroupID, err = ids.Allocate(); err != nil {
		return nil, err
	}
	if err := takeGroupVLAN(tx, rec); err != nil {
		return nil, err
	}
	if err := ledger.Write(tx, mastercfg.GroupIDPoolKey, ids.Pool); err != nil {
		return nil, err
	}
	return rec, PutGroup(tx, rec)
}

// RemoveGroup deletes a group's record and gives its id and address range back.
func RemoveGroup(tx *ledger.Tx, rec *mastercfg.EndpointGroupState) error {
	if rec.IPPool != "" {
		network, err := GetNetwork(tx, mastercfg.NetworkID(rec.TenantName, rec.NetworkName))
		if err == nil {
			err = returnRange(tx, &network, rec)
		}
		if err := ignoreNotFound(err); err != nil {
			return err
		}
	}
	if err := returnGroupVLAN(tx, rec); err != nil {
		return err
	}
	ids, err := groupIDs(tx)
	if err != nil {
		return err
	}
	ids.Free(rec.EndpointGroupID)
	tx.Delete(mastercfg.EndpointGroupPrefix + rec.ID)
	return ledger.Write(tx, mastercfg.GroupIDPoolKey, ids.Pool)
}

// returnRange gives the range of a group back, and with it the addresses that
// were handed out of it without an endpoint.
func returnRange(tx *ledger.Tx, network *mastercfg.CfgNetworkState, rec *mastercfg.EndpointGroupState) error {
	pool, err := resources.GroupPool(network, rec)
	if err != nil {
		return err
	}
	pool.Marked(func(netip.Addr) { network.EpAddrCount = max(0, network.EpAddrCount-1) })
	if err := resources.ReturnGroupPool(network, rec); err != nil {
		return err
	}
	return putNetwork(tx, network)
}

// ApplyNetProfile copies the limits of a profile into a group's record; nil clears them.
func ApplyNetProfile(rec *mastercfg.EndpointGroupState, profile *contivmodel.Netprofile) {
	if profile == nil {
		profile = &contivmodel.Netprofile{}
	}
	rec.Bandwidth, rec.DSCP, rec.Burst = profile.Bandwidth, profile.DSCP, profile.Burst
}

// GetGroup reads a group's record by its state id, G:T.
func GetGroup(r ledger.Reader, id string) (mastercfg.EndpointGroupState, error) {
	return ledger.ReadCoded[mastercfg.EndpointGroupState](r, mastercfg.EndpointGroupPrefix+id)
}

// PutGroup stores a group's record.
func PutGroup(tx *ledger.Tx, rec *mastercfg.EndpointGroupState) error {
	return ledger.WriteCoded(tx, mastercfg.EndpointGroupPrefix+rec.ID, rec)
}

// DefineGroupIDs makes the pool of group ids where there is none yet.
func DefineGroupIDs(tx *ledger.Tx) error {
	ids, err := groupIDs(tx)
	if err != nil {
		return err
	}
	return ledger.Write(tx, mastercfg.GroupIDPoolKey, ids.Pool)
}

// groupIDs reads the pool of group ids; where there is none yet it is made
// from the groups that exist.
func groupIDs(r ledger.Reader) (resources.GroupIDs, error) {
	pool, err := ledger.Read[mastercfg.GroupIDPool](r, mastercfg.GroupIDPoolKey)
	if !fault.Is(err, fault.NotFound) {
		return resources.GroupIDs{Pool: &pool}, err
	}
	ids := resources.NewGroupIDs()
	used, err := usedGroupIDs(r)
	ids.Rebuild(used)
	return ids, err
}

func usedGroupIDs(r ledger.Reader) (map[int]bool, error) {
	groups, err := ledger.ReadAll[mastercfg.EndpointGroupState](r, mastercfg.EndpointGroupPrefix)
	used := map[int]bool{}
	for _, group := range groups {
		used[group.EndpointGroupID] = true
	}
	return used, err
}

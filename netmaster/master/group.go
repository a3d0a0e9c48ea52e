package master

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
)

// DeriveGroup writes the record of a new group: its id, the tags of its
// network, and its address range if it reserves one.
func DeriveGroup(tx *ledger.Tx, g *contivmodel.EndpointGroup) (*mastercfg.EndpointGroupState, error) {
	network, err := GetNetwork(tx, mastercfg.NetworkID(g.TenantName, g.NetworkName))
	if err != nil {
		return nil, err
	}
	rec := newGroup(g, &network)
	if g.IPPool != "" {
		pool, err := NetworkPool(tx, &network)
		if err != nil {
			return nil, err
		}
		if err := resources.ReserveGroupPool(pool, rec, g.IPPool); err != nil {
			return nil, err
		}
	}
	return rec, numberGroup(tx, rec)
}

// rederiveGroup is DeriveGroup for a group whose record was lost: its object reserves the range already, and endpoints
// may have addresses in it.
func rederiveGroup(tx *ledger.Tx, g *contivmodel.EndpointGroup) (*mastercfg.EndpointGroupState, error) {
	network, err := GetNetwork(tx, mastercfg.NetworkID(g.TenantName, g.NetworkName))
	if err != nil {
		return nil, err
	}
	rec := newGroup(g, &network)
	if g.IPPool != "" {
		first, last, err := resources.ParsePool(g.IPPool)
		if err != nil {
			return nil, err
		}
		rec.IPPool = first.String() + "-" + last.String()
		if _, err := GroupPool(tx, &network, rec); err != nil {
			return nil, err
		}
	}
	return rec, numberGroup(tx, rec)
}

// newGroup returns the record of a group without its id and range.
func newGroup(g *contivmodel.EndpointGroup, network *mastercfg.CfgNetworkState) *mastercfg.EndpointGroupState {
	rec := &mastercfg.EndpointGroupState{
		ID: mastercfg.EndpointGroupID(g.TenantName, g.GroupName), GroupName: g.GroupName, TenantName: g.TenantName, NetworkName: g.NetworkName,
		PktTagType: network.PktTagType, PktTag: network.PktTag, ExtPktTag: network.ExtPktTag, GroupTag: g.CfgdTag,
	}
	if rec.GroupTag == "" {
		rec.GroupTag = g.GroupName + "." + g.TenantName
	}
	return rec
}

// numberGroup gives a group an id, and in a fabric a VLAN, and stores its record.
func numberGroup(tx *ledger.Tx, rec *mastercfg.EndpointGroupState) (err error) {
	if rec.EndpointGroupID, err = resources.LowestGroupID(numbers{tx, groupIDSet}); err != nil {
		return err
	}
	if err := takeGroupVLAN(tx, rec); err != nil {
		return err
	}
	return PutGroup(tx, rec)
}

// RemoveGroup deletes a group's record, which frees its id and its range. Addresses of the range that were
// assigned but have no endpoint yet stay held.
func RemoveGroup(tx *ledger.Tx, rec *mastercfg.EndpointGroupState) {
	dropIPv4Counter(tx, rec.ID)
	tx.Delete(mastercfg.EndpointGroupPrefix + rec.ID)
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
	g, err := ledger.ReadShared[mastercfg.EndpointGroupState](r, mastercfg.EndpointGroupPrefix+id)
	return *g, byName("group", id, err)
}

// PutGroup stores a group's record.
func PutGroup(tx *ledger.Tx, rec *mastercfg.EndpointGroupState) error {
	return ledger.Write(tx, mastercfg.EndpointGroupPrefix+rec.ID, rec)
}

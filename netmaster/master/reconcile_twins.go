package master

import (
	"fmt"
	"slices"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
)

// repairVRFs gives every tenant a routing domain of its own, and only tenants.
func repairVRFs(tx *ledger.Tx) (findings, error) {
	var found findings
	taken := map[uint16]string{}
	err := each(tx, mastercfg.VRFPrefix, func(key string, vrf mastercfg.VRFState) error {
		tenant := key[len(mastercfg.VRFPrefix):]
		other := taken[vrf.VRF]
		switch {
		case !Exists(tx, "tenant", tenant):
			found = append(found, fmt.Sprintf("routing domain of tenant %s, which is gone, deleted", tenant))
			tx.Delete(key)
		case other != "" || vrf.VRF == 0:
			found = append(found, fmt.Sprintf("routing domain %d of tenant %s, which tenant %q has, replaced", vrf.VRF, tenant, other))
			tx.Delete(key)
			return DeriveVRF(tx, tenant)
		default:
			taken[vrf.VRF] = tenant
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = each(tx, mastercfg.ModelKey("tenant", ""), func(_ string, t contivmodel.Tenant) error {
		if _, has := tx.Get(mastercfg.VRFPrefix + t.TenantName); has {
			return nil
		}
		found = append(found, "routing domain of tenant "+t.TenantName+" made")
		return DeriveVRF(tx, t.TenantName)
	})
	return found, err
}

// repairPools makes a range of tags that is missing or unreadable anew from the
// global object.
func repairPools(tx *ledger.Tx) (findings, error) {
	global, err := Get[contivmodel.Global](tx, contivmodel.GlobalName, nil)
	if err != nil || global == nil {
		return nil, err
	}
	var found findings
	if _, err := VLANs(tx); err != nil {
		r, err := resources.ParseVLANRange(global.Vlans)
		if err != nil {
			return nil, err
		}
		found = append(found, "vlan range made anew")
		if err := PutVLANs(tx, resources.DefineVLANs(r)); err != nil {
			return nil, err
		}
	}
	if _, err := VXLANs(tx); err != nil {
		r, err := resources.ParseVXLANRange(global.Vxlans)
		if err != nil {
			return nil, err
		}
		found = append(found, "vxlan range made anew")
		if err := PutVXLANs(tx, resources.DefineVXLANs(r)); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// repairNetworks gives every network of the model a record, and only those.
func repairNetworks(tx *ledger.Tx) (findings, error) {
	var found findings
	known := map[string]bool{}
	err := each(tx, mastercfg.ModelKey("network", ""), func(_ string, n contivmodel.Network) error {
		id := mastercfg.NetworkID(n.TenantName, n.NetworkName)
		known[id] = true
		if _, has := tx.Get(mastercfg.NetworkPrefix + id); has {
			return nil
		}
		found = append(found, "record of network "+id+" made")
		return DeriveNetwork(tx, &n)
	})
	if err != nil {
		return nil, err
	}
	err = each(tx, mastercfg.NetworkPrefix, func(_ string, rec mastercfg.CfgNetworkState) error {
		if known[rec.ID] || Exists(tx, "network", rec.Tenant+":"+rec.NetworkName) {
			return nil
		}
		found = append(found, "record of network "+rec.ID+", which is gone, deleted")
		return RemoveNetwork(tx, &rec)
	})
	return found, err
}

// repairGroups gives every group of the model a record, and only those.
func repairGroups(tx *ledger.Tx) (findings, error) {
	var found findings
	err := each(tx, mastercfg.ModelKey("endpointGroup", ""), func(_ string, g contivmodel.EndpointGroup) error {
		id := mastercfg.EndpointGroupID(g.TenantName, g.GroupName)
		if _, has := tx.Get(mastercfg.EndpointGroupPrefix + id); has {
			return nil
		}
		rec, err := DeriveGroup(tx, &g)
		if err != nil {
			return err
		}
		profile, err := Get[contivmodel.Netprofile](tx, g.Links.NetProfile.Key, nil)
		if err != nil {
			return err
		}
		ApplyNetProfile(rec, profile)
		found = append(found, "record of endpoint group "+id+" made")
		return PutGroup(tx, rec)
	})
	if err != nil {
		return nil, err
	}
	err = each(tx, mastercfg.EndpointGroupPrefix, func(_ string, rec mastercfg.EndpointGroupState) error {
		if Exists(tx, "endpointGroup", rec.TenantName+":"+rec.GroupName) {
			return nil
		}
		found = append(found, "record of endpoint group "+rec.ID+", which is gone, deleted")
		RemoveGroup(tx, &rec)
		return nil
	})
	return found, err
}

// repairGroupIDs makes ids unique. Of two groups with one id the one written
// longer ago keeps it.
func repairGroupIDs(tx *ledger.Tx) (findings, error) {
	var found findings
	groups, err := ledger.ReadAll[mastercfg.EndpointGroupState](tx, mastercfg.EndpointGroupPrefix)
	if err != nil {
		return nil, err
	}
	age := func(g mastercfg.EndpointGroupState) int64 { return tx.Revision(mastercfg.EndpointGroupPrefix + g.ID) }
	slices.SortStableFunc(groups, func(a, b mastercfg.EndpointGroupState) int { return int(age(a) - age(b)) })
	holder := map[int]string{}
	for _, g := range groups {
		other, duplicate := holder[g.EndpointGroupID]
		if !duplicate && g.EndpointGroupID > 0 {
			holder[g.EndpointGroupID] = g.ID
			continue
		}
		old := g.EndpointGroupID
		if g.EndpointGroupID, err = resources.LowestGroupID(numbers{tx, groupIDSet}); err != nil {
			return nil, err
		}
		holder[g.EndpointGroupID] = g.ID
		found = append(found, fmt.Sprintf("endpoint group %s had id %d, like %q, and got %d", g.ID, old, other, g.EndpointGroupID))
		if err := renumber(tx, &g); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// renumber stores a group with its new id and tells its endpoints and bindings;
// rules are rewritten by their own check, which comes later.
func renumber(tx *ledger.Tx, g *mastercfg.EndpointGroupState) error {
	if err := PutGroup(tx, g); err != nil {
		return err
	}
	for _, ep := range readFound(tx, memberTerm+g.ID) {
		ep.EndpointGroupID = g.EndpointGroupID
		if err := putEndpoint(tx, &ep); err != nil {
			return err
		}
	}
	prefix := mastercfg.PolicyPrefix + g.TenantName + ":" + g.GroupName + ":"
	return each(tx, prefix, func(key string, b mastercfg.EpgPolicy) error {
		b.EndpointGroupID = g.EndpointGroupID
		return ledger.Write(tx, key, b)
	})
}

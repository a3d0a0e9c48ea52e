package master

import (
	"fmt"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// repairVRF gives a tenant a routing domain of its own, with its mode, and deletes one without a tenant.
func repairVRF(p *pass, key string) (findings, error) {
	if name, ok := modelBelow(key, "tenant"); ok {
		t, readable := soundTenant(p, name)
		if _, has := p.Get(mastercfg.VRFPrefix + name); !has {
			return findings{"routing domain of tenant " + name + " made"}, DeriveVRF(p.Tx, &t)
		}
		if vrf, ok := readSound[mastercfg.VRFState](p, mastercfg.VRFPrefix+name); ok && readable && t.PolicyMode != vrf.PolicyMode {
			return findings{fmt.Sprintf("policyMode %q of tenant %s written", t.PolicyMode, name)}, DerivePolicyMode(p.Tx, &t)
		}
		return nil, nil
	}
	tenant := key[len(mastercfg.VRFPrefix):]
	if !Exists(p, "tenant", tenant) {
		p.Delete(key)
		return findings{"routing domain of tenant " + tenant + ", which is gone, deleted"}, nil
	}
	vrf, ok := readSound[mastercfg.VRFState](p, key)
	other := oldest(p, numberTerm(vrfSet, int(vrf.VRF)))
	if !ok || vrf.VRF != 0 && other == key {
		return nil, nil
	}
	t, _ := soundTenant(p, tenant)
	p.Delete(key)
	return findings{fmt.Sprintf("routing domain %d of tenant %s, like %s, replaced", vrf.VRF, tenant, other)}, DeriveVRF(p.Tx, &t)
}

// soundTenant returns an existing tenant; with only its name if it cannot be read.
func soundTenant(p *pass, name string) (t contivmodel.Tenant, readable bool) {
	t, readable = readSound[contivmodel.Tenant](p, mastercfg.ModelKey("tenant", name))
	t.TenantName = name
	return t, readable
}

// oldest returns the key that was written first among those under a term.
func oldest(r ledger.Reader, term string) (oldest string) {
	found(r, term, func(key string) bool {
		if oldest == "" || r.Revision(key) < r.Revision(oldest) {
			oldest = key
		}
		return true
	})
	return oldest
}

// repairRanges derives a range of tags that is missing or unreadable from the global object.
func repairRanges(p *pass, key string) (findings, error) {
	global, ok := readSound[contivmodel.Global](p, key)
	if !ok {
		return nil, nil
	}
	var found findings
	if _, err := VLANs(p); err != nil {
		r, err := resources.ParseVLANRange(global.Vlans)
		if err == nil {
			err = PutVLANs(p.Tx, resources.DefineVLANs(r))
		}
		if err != nil {
			return nil, err
		}
		found = append(found, "vlan range made anew")
	}
	if _, err := VXLANs(p); err != nil {
		r, err := resources.ParseVXLANRange(global.Vxlans)
		if err == nil {
			err = PutVXLANs(p.Tx, resources.DefineVXLANs(r))
		}
		if err != nil {
			return nil, err
		}
		found = append(found, "vxlan range made anew")
	}
	return found, nil
}

// repairNetwork writes the missing record of a network of the model, and deletes a record without a network.
func repairNetwork(p *pass, key string) (findings, error) {
	if _, ok := modelBelow(key, "network"); ok {
		n, ok := readSound[contivmodel.Network](p, key)
		id := mastercfg.NetworkID(n.TenantName, n.NetworkName)
		if _, has := p.Get(mastercfg.NetworkPrefix + id); has || !ok {
			return nil, nil
		}
		return findings{"record of network " + id + " made"}, rederiveNetwork(p.Tx, &n)
	}
	rec, ok := readSound[mastercfg.CfgNetworkState](p, key)
	if !ok || Exists(p, "network", rec.Tenant+":"+rec.NetworkName) {
		return nil, nil
	}
	return findings{"record of network " + rec.ID + ", which is gone, deleted"}, RemoveNetwork(p.Tx, &rec)
}

// repairGroup writes the missing record of a group of the model, and deletes a record without a group. Endpoints of
// a deleted one are in no group any more: its id is free.
func repairGroup(p *pass, key string) (findings, error) {
	if _, ok := modelBelow(key, "endpointGroup"); ok {
		g, ok := readSound[contivmodel.EndpointGroup](p, key)
		id := mastercfg.EndpointGroupID(g.TenantName, g.GroupName)
		if _, has := p.Get(mastercfg.EndpointGroupPrefix + id); has || !ok {
			return nil, nil
		}
		rec, err := rederiveGroup(p.Tx, &g)
		if err != nil {
			return nil, err
		}
		profile, err := Get[contivmodel.Netprofile](p, g.Links.NetProfile.Key, nil)
		if err != nil {
			return nil, err
		}
		ApplyNetProfile(rec, profile)
		if former := formerGroupID(p, id); former != 0 {
			rec.EndpointGroupID = former
		}
		return findings{"record of endpoint group " + id + " made"}, renumber(p.Tx, rec)
	}
	rec, ok := readSound[mastercfg.EndpointGroupState](p, key)
	if !ok || Exists(p, "endpointGroup", rec.TenantName+":"+rec.GroupName) {
		return nil, nil
	}
	for _, ep := range readFound(p, memberTerm+rec.ID) {
		if err := MoveEndpoint(p.Tx, ep, ""); err != nil {
			return nil, err
		}
	}
	RemoveGroup(p.Tx, &rec)
	return findings{"record of endpoint group " + rec.ID + ", which is gone, deleted"}, nil
}

// formerGroupID returns the id that an endpoint of a group still has from the group's lost record, unless another
// group has got it since; 0: none.
func formerGroupID(r ledger.Reader, groupID string) int {
	for _, ep := range readFound(r, memberTerm+groupID) {
		owner := oldest(r, numberTerm(groupIDSet, ep.EndpointGroupID))
		if ep.EndpointGroupID > 0 && ep.EndpointGroupID <= pipeline.MaxGroup && (owner == "" || owner == mastercfg.EndpointGroupPrefix+groupID) {
			return ep.EndpointGroupID
		}
	}
	return 0
}

// repairGroupID gives a group an id of its own. Of two groups with one id the one that was written first keeps it.
func repairGroupID(p *pass, key string) (findings, error) {
	g, ok := readSound[mastercfg.EndpointGroupState](p, key)
	old := g.EndpointGroupID
	other := oldest(p, numberTerm(groupIDSet, old))
	if !ok || old > 0 && other == key {
		return nil, nil
	}
	var err error
	if g.EndpointGroupID, err = resources.LowestGroupID(numbers{p, groupIDSet}); err != nil {
		return nil, err
	}
	text := fmt.Sprintf("endpoint group %s had id %d, like %s, and got %d", g.ID, old, other, g.EndpointGroupID)
	return findings{text}, renumber(p.Tx, &g)
}

// renumber stores a group with its new id and updates its endpoints and bindings; rules are rewritten
// by their own check, which comes later.
func renumber(tx *ledger.Tx, g *mastercfg.EndpointGroupState) error {
	if err := PutGroup(tx, g); err != nil {
		return err
	}
	for _, ep := range readFound(tx, memberTerm+g.ID) {
		if ep.EndpointGroupID == g.EndpointGroupID {
			continue
		}
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

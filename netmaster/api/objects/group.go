package objects

import (
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/jsonstream"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

func createGroup(c *Change, g *contivmodel.EndpointGroup) error {
	tenant, err := tenantOf(c, g.TenantName)
	if err != nil {
		return err
	}
	network, err := networkOf(c, g)
	if err != nil {
		return err
	}
	if master.Exists(c, "network", g.ModelKey()) {
		return fault.New(fault.Conflict, "Network %s conflicts with the endpointGroup name", g.GroupName).
			WithDetails("network " + g.ModelKey())
	}
	rec, err := master.DeriveGroup(c.Tx, g)
	if err != nil {
		return err
	}
	if err := attachPolicies(c, g, rec.EndpointGroupID, g.Policies); err != nil {
		return err
	}
	if len(g.Policies) > 0 {
		if err := c.roomForRules(g.TenantName); err != nil {
			return err
		}
	}
	if err := setNetProfile(c, g, rec, g.NetProfile); err != nil {
		return err
	}
	if err := linkContracts(c, g, g.ExtContractsGrps); err != nil {
		return err
	}
	g.Links.Tenant, g.Links.Network = contivmodel.LinkTo(tenant), contivmodel.LinkTo(network)
	if err := c.put(g); err != nil {
		return err
	}
	return groupCame(c, g)
}

func networkOf(r ledger.Reader, g *contivmodel.EndpointGroup) (*contivmodel.Network, error) {
	key := g.TenantName + ":" + g.NetworkName
	return master.Get[contivmodel.Network](r, key, missing("Network %s not found", g.NetworkName))
}

// attachPolicies attaches policies to a group and links them; the caller stores the group.
func attachPolicies(c *Change, g *contivmodel.EndpointGroup, groupID int, policies []string) error {
	for _, name := range policies {
		policy, err := master.Get[contivmodel.Policy](c, g.TenantName+":"+name, missingPolicy(g.TenantName, name))
		if err != nil {
			return err
		}
		if err := master.Attach(c.Tx, g, groupID, policy); err != nil {
			return err
		}
		g.LinkSets.Policies.Add(policy)
	}
	return nil
}

// detachPolicies is the inverse of attachPolicies.
func detachPolicies(c *Change, g *contivmodel.EndpointGroup, policies []string) error {
	for _, name := range policies {
		key := g.TenantName + ":" + name
		if err := master.Detach(c.Tx, g.ModelKey(), key); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		delete(g.LinkSets.Policies, key)
	}
	return nil
}

// keeps returns the refusal to change an immutable field of a group.
func keeps(g *contivmodel.EndpointGroup, text, field, has, wanted string) error {
	return fault.New(fault.Immutable, "%s", text).WithField(field).
		WithExplanation("%s: endpointGroup %s has %s %q, which %q would be instead: delete it and make it anew", strings.TrimSuffix(text, "."), g.ModelKey(), field, has, wanted)
}

func updateGroup(c *Change, stored, wanted *contivmodel.EndpointGroup) error {
	if wanted.NetworkName != stored.NetworkName {
		return keeps(stored, "Cannot change network association after epg is created.", "networkName", stored.NetworkName, wanted.NetworkName)
	}
	if wanted.IPPool != stored.IPPool {
		return keeps(stored, "Cannot change IP pool after epg is created.", "ipPool", stored.IPPool, wanted.IPPool)
	}
	// A client that has not read the group, or names no tag, keeps the stored one, as in the original.
	if !c.Blind && wanted.CfgdTag != "" && wanted.CfgdTag != stored.CfgdTag {
		return keeps(stored, "Cannot change the tag after epg is created.", "cfgdTag", stored.CfgdTag, wanted.CfgdTag)
	}
	rec, err := master.GetGroup(c, mastercfg.EndpointGroupID(stored.TenantName, stored.GroupName))
	if err != nil {
		return err
	}
	added := slices.DeleteFunc(slices.Clone(wanted.Policies), func(p string) bool { return slices.Contains(stored.Policies, p) })
	gone := slices.DeleteFunc(slices.Clone(stored.Policies), func(p string) bool { return slices.Contains(wanted.Policies, p) })
	if err := attachPolicies(c, stored, rec.EndpointGroupID, unique(added)); err != nil {
		return err
	}
	if err := setNetProfile(c, stored, &rec, wanted.NetProfile); err != nil {
		return err
	}
	if err := detachPolicies(c, stored, gone); err != nil {
		return err
	}
	if len(added) > 0 {
		if err := c.roomForRules(stored.TenantName); err != nil {
			return err
		}
	}
	if err := linkContracts(c, stored, wanted.ExtContractsGrps); err != nil {
		return err
	}
	stored.Policies = unique(wanted.Policies)
	return master.Put(c.Tx, stored)
}

// unique drops repeated names and keeps the order.
func unique(names []string) []string {
	seen := make(map[string]bool, len(names))
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again
	})
}

func removeGroup(c *Change, g *contivmodel.EndpointGroup) error {
	if profile := g.Links.AppProfile.Key; profile != "" {
		return fault.New(fault.InUse, "Cannot delete %s, associated to appProfile %s", g.GroupName, profile).WithDetails("appProfile " + profile)
	}
	if err := notDockers(c, g.TenantName, g.NetworkName, g.GroupName); err != nil {
		return err
	}
	rec, err := master.GetGroup(c, mastercfg.EndpointGroupID(g.TenantName, g.GroupName))
	if err == nil {
		if members := master.Members(c, rec.ID); len(members) > 0 {
			return fault.New(fault.InUse, "Error: EPG %s has active endpoints", g.GroupName).WithDetails(members...)
		}
		master.RemoveGroup(c.Tx, &rec)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	if err := detachPolicies(c, g, g.Policies); err != nil {
		return err
	}
	master.Drop(c.Tx, g)
	return groupWent(c, g)
}

// groupCame links and expands the rules that name a new group.
func groupCame(c *Change, g *contivmodel.EndpointGroup) error {
	return master.GroupChanged(c.Tx, g.TenantName, g.GroupName, func(r *contivmodel.Rule) {
		r.Links.MatchEndpointGroup = contivmodel.LinkTo(g)
	})
}

// groupWent is the inverse, for a deleted group.
func groupWent(c *Change, g *contivmodel.EndpointGroup) error {
	return master.GroupChanged(c.Tx, g.TenantName, g.GroupName, func(r *contivmodel.Rule) {
		r.Links.MatchEndpointGroup = contivmodel.Link{}
	})
}

func inspectGroup(r *View, g *contivmodel.EndpointGroup) (any, error) {
	oper, err := groupOper(r, g.ModelKey())
	return inspection(contivmodel.EndpointGroupInspect{Config: *g}, oper.late(r)), err
}

// groupView is the run-time view of a group.
type groupView struct {
	contivmodel.EndpointGroupOper
	members []string // keys of its endpoints
}

func (g groupView) late(r ledger.Reader) jsonstream.Object {
	return jsonstream.Object{Of: g.EndpointGroupOper, Late: map[string]any{"endpoints": endpointsAt(r, g.members)}}
}

// groupOper returns the run-time view of a group, given by its model key.
func groupOper(r ledger.Reader, key string) (none groupView, err error) {
	g, err := master.Get[contivmodel.EndpointGroup](r, key, NotFound("endpointGroup"))
	if err != nil {
		return none, err
	}
	rec, err := master.GetGroup(r, mastercfg.EndpointGroupID(g.TenantName, g.GroupName))
	if err != nil {
		return none, err
	}
	members := master.MemberKeys(r, rec.ID)
	oper := groupView{contivmodel.EndpointGroupOper{
		PktTag: rec.PktTag, ExternalPktTag: rec.ExtPktTag, GroupTag: rec.GroupTag, NumEndpoints: len(members),
	}, members}
	if rec.IPPool == "" {
		return oper, nil
	}
	net, err := master.GetNetwork(r, mastercfg.NetworkID(rec.TenantName, rec.NetworkName))
	if err != nil {
		return none, err
	}
	pool, err := master.GroupPool(r, &net, &rec)
	if err != nil {
		return none, err
	}
	oper.AllocatedIPAddresses, oper.AvailableIPAddresses = pool.Allocated(), pool.Available()
	return oper, nil
}

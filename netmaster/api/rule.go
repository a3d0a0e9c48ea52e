package api

import (
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

func createRule(c *change, r *contivmodel.Rule) error {
	if err := master.CheckRule(r); err != nil {
		return err
	}
	if _, err := master.ResolvePeer(c, r); err != nil {
		return err
	}
	policy, err := policyOf(c, r)
	if err != nil {
		return err
	}
	if r.Direction == "in" && r.ToIPAddress != "" {
		if err := ownAddress(c, policy, r.ToIPAddress); err != nil {
			return err
		}
	}
	if err := linkPeer(c, r); err != nil {
		return err
	}
	r.LinkSets.Policies.Add(policy)
	policy.LinkSets.Rules.Add(r)
	if err := master.Put(c.Tx, policy); err != nil {
		return err
	}
	if err := master.Put(c.Tx, r); err != nil {
		return err
	}
	return master.ApplyRule(c.Tx, policy, r)
}

func policyOf(reader objdb.Reader, r *contivmodel.Rule) (*contivmodel.Policy, error) {
	return master.Get[contivmodel.Policy](reader, r.TenantName+":"+r.PolicyName, missing("Policy not found"))
}

// ownAddress checks an incoming rule that is for one endpoint of the group: the
// policy has one group, and that has an endpoint with the address.
func ownAddress(r objdb.Reader, policy *contivmodel.Policy, address string) error {
	groups := keys(policy.LinkSets.EndpointGroups)
	if len(groups) != 1 {
		return fault.New(fault.Invalid, "failed to configure %s, %d endpoint groups linked to policy %s ",
			address, len(groups), policy.PolicyName).WithField("toIpAddress")
	}
	_, byGroup, err := endpointIndex(r)
	if err != nil {
		return err
	}
	tenant, group, _ := strings.Cut(groups[0], ":")
	id := mastercfg.EndpointGroupID(tenant, group)
	for _, ep := range byGroup[id] {
		if ep.IPAddress[0] == address {
			return nil
		}
	}
	return fault.New(fault.Invalid, "failed to configure %s, ip address is not in epg %s", address, id).WithField("toIpAddress")
}

// linkPeer links a rule with the group it names; the caller stores the rule.
func linkPeer(c *change, r *contivmodel.Rule) error {
	group, err := peerOf(c, r)
	if err != nil || group == nil {
		return err
	}
	r.Links.MatchEndpointGroup = contivmodel.LinkTo(group)
	group.LinkSets.MatchRules.Add(r)
	return master.Put(c.Tx, group)
}

// unlinkPeer takes a rule out of the group it names.
func unlinkPeer(c *change, r *contivmodel.Rule) error {
	group, err := peerOf(c, r)
	if err != nil || group == nil {
		return err
	}
	group.LinkSets.MatchRules.Remove(r)
	return master.Put(c.Tx, group)
}

// peerOf reads the group a rule names; nil if it names none, or one that is gone.
func peerOf(reader objdb.Reader, r *contivmodel.Rule) (*contivmodel.EndpointGroup, error) {
	name := master.PeerGroup(r)
	if name == "" {
		return nil, nil
	}
	return master.Get[contivmodel.EndpointGroup](reader, r.TenantName+":"+name, nil)
}

func updateRule(_ *change, _, _ *contivmodel.Rule) error {
	return fault.New(fault.Immutable, "can not update a rule after its created")
}

func removeRule(c *change, r *contivmodel.Rule) error {
	policy, err := policyOf(c, r)
	if err != nil {
		return err
	}
	if err := master.RetractRule(c.Tx, policy, r); err != nil {
		return err
	}
	if err := unlinkPeer(c, r); err != nil {
		return err
	}
	policy.LinkSets.Rules.Remove(r)
	master.Drop(c.Tx, r)
	return master.Put(c.Tx, policy)
}

package objects

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

func createRule(c *Change, r *contivmodel.Rule) error {
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
	peer, err := peerOf(c, r)
	if err != nil {
		return err
	}
	if peer != nil {
		r.Links.MatchEndpointGroup = contivmodel.LinkTo(peer)
	}
	r.LinkSets.Policies.Add(policy)
	if err := master.Put(c.Tx, r); err != nil {
		return err
	}
	if err := c.roomForRules(r.TenantName); err != nil {
		return err
	}
	return master.ApplyRule(c.Tx, policy, r)
}

// policyOf reads the policy of a rule; the result is shared and must not be changed.
func policyOf(reader ledger.Reader, r *contivmodel.Rule) (*contivmodel.Policy, error) {
	return master.GetShared[contivmodel.Policy](reader, r.TenantName+":"+r.PolicyName, missingPolicy(r.TenantName, r.PolicyName))
}

// ownAddress checks an incoming rule for one endpoint of the group: the
// policy must have one group, which has an endpoint with the address.
func ownAddress(r ledger.Reader, policy *contivmodel.Policy, address string) error {
	groups := master.GroupsOf(r, policy)
	if len(groups) != 1 {
		return fault.New(fault.Invalid, "failed to configure %s, %d endpoint groups linked to policy %s ",
			address, len(groups), policy.PolicyName).WithField("toIpAddress")
	}
	group, err := master.Get[contivmodel.EndpointGroup](r, groups[0], NotFound("endpointGroup"))
	if err != nil {
		return err
	}
	id := mastercfg.EndpointGroupID(group.TenantName, group.GroupName)
	if addr, ok := master.OneAddress(address); ok {
		ep, there, err := master.EndpointAt(r, mastercfg.NetworkID(group.TenantName, group.NetworkName), addr)
		if err != nil {
			return err
		}
		if there && ep.EndpointGroupKey == id {
			return nil
		}
	}
	return fault.New(fault.Invalid, "failed to configure %s, ip address is not in epg %s", address, id).WithField("toIpAddress")
}

// peerOf reads the group that a rule names; nil if it names none,
// or a deleted one. The result is shared and must not be changed.
func peerOf(reader ledger.Reader, r *contivmodel.Rule) (*contivmodel.EndpointGroup, error) {
	name := master.PeerGroup(r)
	if name == "" {
		return nil, nil
	}
	return master.GetShared[contivmodel.EndpointGroup](reader, r.TenantName+":"+name, nil)
}

func updateRule(_ *Change, r, _ *contivmodel.Rule) error {
	return immutable(r, "can not update a rule after its created")
}

func removeRule(c *Change, r *contivmodel.Rule) error {
	policy, err := policyOf(c, r)
	if err != nil {
		return err
	}
	if err := master.RetractRule(c.Tx, policy, r); err != nil {
		return err
	}
	master.Drop(c.Tx, r)
	return nil
}

package master

import (
	"encoding/json"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Attach applies a policy to a group: it writes a binding, and the expansion of each rule. The caller
// links the two objects and stores both. A policy with a rule that cannot be read is refused: without the rule,
// it would let other packets through.
func Attach(tx *ledger.Tx, group *contivmodel.EndpointGroup, groupID int, policy *contivmodel.Policy) error {
	rules, others := rulesOf(tx, policy)
	if len(others) > 0 {
		return fault.New(fault.Internal, "policy %s is not attached to group %s: its rule %s cannot be read; repair or delete its record %s in the store, and restart the leading netmaster",
			policy.ModelKey(), group.ModelKey(), others[0], mastercfg.ModelKey("rule", others[0]))
	}
	return attach(tx, group, groupID, policy, rules)
}

// attach is Attach with some rules of the policy.
func attach(tx *ledger.Tx, group *contivmodel.EndpointGroup, groupID int, policy *contivmodel.Policy, rules []*contivmodel.Rule) error {
	id := mastercfg.PolicyID(group.ModelKey(), policy.ModelKey())
	if _, exists := tx.Get(mastercfg.PolicyPrefix + id); exists {
		return fault.New(fault.Conflict, "Epg policy exists").WithDetails("policy " + policy.ModelKey())
	}
	binding := mastercfg.EpgPolicy{ID: id, EpgPolicyKey: id, EndpointGroupID: groupID}
	for _, rule := range rules {
		if err := expandOn(tx, binding, rule); err != nil {
			return err
		}
	}
	return ledger.Write(tx, mastercfg.PolicyPrefix+id, binding)
}

// Detach removes the binding of a policy to a group, with all expanded rules.
func Detach(tx *ledger.Tx, groupKey, policyKey string) error {
	id := mastercfg.PolicyID(groupKey, policyKey)
	if _, exists := tx.Get(mastercfg.PolicyPrefix + id); !exists {
		return fault.New(fault.NotFound, "epg policy does not exist").WithDetails("policy " + policyKey)
	}
	tx.Delete(mastercfg.PolicyPrefix + id)
	dropRules(tx, id)
	return nil
}

// dropRules deletes every expanded rule of a binding.
func dropRules(tx *ledger.Tx, bindingID string) {
	tx.Range(mastercfg.PolicyRulePrefix+bindingID+":", func(key string, _ []byte) bool {
		tx.Delete(key)
		return true
	})
}

// ApplyRule updates the expansions of a rule in every group that its policy is attached to. A rule whose peer
// does not exist has no expansion: it must match nothing, rather than everything.
func ApplyRule(tx *ledger.Tx, policy *contivmodel.Policy, rule *contivmodel.Rule) error {
	return onBindings(tx, policy, func(binding mastercfg.EpgPolicy) error { return expandOn(tx, binding, rule) })
}

// RetractRule deletes the expansions of a rule in all groups.
func RetractRule(tx *ledger.Tx, policy *contivmodel.Policy, rule *contivmodel.Rule) error {
	return onBindings(tx, policy, func(binding mastercfg.EpgPolicy) error {
		return writeExpansion(tx, binding.ID, rule, nil)
	})
}

// Bindings counts the groups that a policy, given by its model key, is attached to.
func Bindings(r ledger.Reader, policy string) (n int) {
	found(r, bindingTerm+policy, func(string) bool {
		n++
		return true
	})
	return n
}

func onBindings(tx *ledger.Tx, policy *contivmodel.Policy, do func(mastercfg.EpgPolicy) error) error {
	var failed error
	found(tx, bindingTerm+policy.ModelKey(), func(key string) bool {
		var binding mastercfg.EpgPolicy
		if binding, failed = ledger.Read[mastercfg.EpgPolicy](tx, key); failed == nil {
			failed = do(binding)
		}
		return failed == nil
	})
	return failed
}

// expandOn updates the expansions of a rule in one group.
func expandOn(tx *ledger.Tx, binding mastercfg.EpgPolicy, rule *contivmodel.Rule) error {
	wanted, err := expansion(tx, binding, rule)
	if err != nil {
		return err
	}
	return writeExpansion(tx, binding.ID, rule, wanted)
}

// expansion returns the expanded rules of a rule for one binding; none where a fabric enforces policies.
func expansion(r ledger.Reader, binding mastercfg.EpgPolicy, rule *contivmodel.Rule) ([]mastercfg.CfgPolicyRule, error) {
	if inFabric, err := InFabric(r); inFabric || err != nil {
		return nil, err
	}
	peer, err := ResolvePeer(r, rule)
	if fault.Is(err, fault.MissingReference) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return Expand(rule, binding.ID, binding.EndpointGroupID, peer)
}

func writeExpansion(tx *ledger.Tx, bindingID string, rule *contivmodel.Rule, wanted []mastercfg.CfgPolicyRule) error {
	keep := map[string]bool{}
	for _, w := range wanted {
		keep[w.RuleID] = true
		if err := ledger.Write(tx, mastercfg.PolicyRulePrefix+w.RuleID, w); err != nil {
			return err
		}
	}
	for _, direction := range directions {
		if id := mastercfg.RuleID(bindingID, rule.ModelKey(), direction); !keep[id] {
			tx.Delete(mastercfg.PolicyRulePrefix + id)
		}
	}
	return nil
}

// rulesOf returns the readable rules of a policy, and the model keys of the others.
func rulesOf(r ledger.Reader, policy *contivmodel.Policy) (rules []*contivmodel.Rule, others []string) {
	prefix := mastercfg.ModelKey("rule", "")
	r.Range(prefix+policy.ModelKey()+":", func(key string, value []byte) bool {
		var rule contivmodel.Rule
		if json.Unmarshal(value, &rule) == nil {
			rules = append(rules, &rule)
		} else {
			others = append(others, key[len(prefix):])
		}
		return true
	})
	return rules, others
}

// GroupsOf returns the keys of the groups that name a policy.
func GroupsOf(r ledger.Reader, policy *contivmodel.Policy) []string {
	return keysOf(r, link("policy", policy.ModelKey(), "EndpointGroups"), "endpointGroup")
}

var errGone = fault.New(fault.NotFound, "object is gone")

// PeerGroup returns the name of the peer group in a rule, or "".
func PeerGroup(rule *contivmodel.Rule) string {
	if rule.FromEndpointGroup != "" {
		return rule.FromEndpointGroup
	}
	return rule.ToEndpointGroup
}

// ResolvePeer looks up the group and the networks that a rule names, in its own tenant.
func ResolvePeer(r ledger.Reader, rule *contivmodel.Rule) (Peer, error) {
	peer := Peer{From: rule.FromIPAddress, To: rule.ToIPAddress}
	if name := PeerGroup(rule); name != "" {
		group, err := ledger.ReadShared[mastercfg.EndpointGroupState](r, mastercfg.EndpointGroupPrefix+mastercfg.EndpointGroupID(rule.TenantName, name))
		if fault.Is(err, fault.NotFound) {
			return peer, fault.New(fault.MissingReference, "endpoint group not found").WithDetails("endpointGroup " + rule.TenantName + ":" + name)
		}
		if err != nil {
			return peer, err
		}
		peer.Group = group.EndpointGroupID
	}
	var err error
	if rule.FromNetwork != "" {
		peer.From, peer.From6, err = resolveNetwork(r, rule.TenantName, rule.FromNetwork, "from", rule.ToIPAddress)
	}
	if rule.ToNetwork != "" && err == nil {
		peer.To, peer.To6, err = resolveNetwork(r, rule.TenantName, rule.ToNetwork, "to", rule.FromIPAddress)
	}
	return peer, err
}

// resolveNetwork returns the subnets of a network that a rule names: of both families, if the network has both
// and the address of the other side does not say which is meant. The IPv4 one is first then.
func resolveNetwork(r ledger.Reader, tenant, name, side, other string) (cidr, cidr6 string, err error) {
	missing := fault.New(fault.MissingReference, "%s Network not found", side).WithDetails("network " + tenant + ":" + name)
	network, err := Get[contivmodel.Network](r, tenant+":"+name, missing)
	if err != nil {
		return "", "", err
	}
	facing, ok := parseAddresses(other)
	only4, only6 := ok && facing.Addr().Is4(), ok && facing.Addr().Is6()
	lacks := func(family string) error {
		return fault.New(fault.MissingReference, "%s Network %s has no %s, the other side is %s", side, name, family, other).
			WithDetails("network " + tenant + ":" + name)
	}
	switch {
	case only4 && network.Subnet == "":
		return "", "", lacks("IPv4")
	case only6 && network.Ipv6Subnet == "":
		return "", "", lacks("IPv6")
	}
	if network.Subnet != "" && !only6 {
		subnet, err := resources.ParseSubnet(network.Subnet)
		if err != nil {
			return "", "", err
		}
		cidr = subnet.CIDR().String()
	}
	if network.Ipv6Subnet == "" || only4 {
		return cidr, "", nil
	}
	subnet, err := resources.ParseIPv6Subnet(network.Ipv6Subnet)
	if err != nil {
		return "", "", err
	}
	if cidr == "" {
		return subnet.String(), "", nil
	}
	return cidr, subnet.String(), nil
}

// GroupChanged re-expands the rules of a tenant that name a group which was added or removed; change updates
// their link. Rules outlive their peers: without the peer they match nothing, so that a successor with the same
// name or the same id is never mistaken for it.
func GroupChanged(tx *ledger.Tx, tenant, group string, change func(*contivmodel.Rule)) error {
	return peerChanged(tx, link("endpointGroup", tenant+":"+group, "MatchRules"), change)
}

// NetworkChanged does the same for the rules that name a network.
func NetworkChanged(tx *ledger.Tx, tenant, network string) error {
	return peerChanged(tx, namesTerm+tenant+"/"+network, func(*contivmodel.Rule) {})
}

func peerChanged(tx *ledger.Tx, term string, change func(*contivmodel.Rule)) error {
	for _, key := range keysOf(tx, term, "rule") {
		rule, err := Get[contivmodel.Rule](tx, key, errGone)
		if err != nil {
			return err
		}
		change(rule)
		if err := Put(tx, rule); err != nil {
			return err
		}
		policy, err := Get[contivmodel.Policy](tx, rule.TenantName+":"+rule.PolicyName, nil)
		if err != nil {
			return err
		}
		if policy == nil {
			continue
		}
		if err := ApplyRule(tx, policy, rule); err != nil {
			return err
		}
	}
	return nil
}

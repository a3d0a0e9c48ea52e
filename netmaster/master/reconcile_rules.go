package master

import (
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// repairBindings makes the policies attached to groups exactly those that the
// groups name.
func repairBindings(tx *ledger.Tx) (findings, error) {
	var found findings
	wanted := map[string]bool{}
	err := each(tx, mastercfg.ModelKey("endpointGroup", ""), func(_ string, g contivmodel.EndpointGroup) error {
		for _, name := range g.Policies {
			id := mastercfg.PolicyID(g.ModelKey(), g.TenantName+":"+name)
			wanted[id] = true
			if _, has := tx.Get(mastercfg.PolicyPrefix + id); has {
				continue
			}
			attached, err := reattach(tx, &g, name)
			if err != nil {
				return err
			}
			if attached {
				found = append(found, "binding "+id+" made")
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	tx.Range(mastercfg.PolicyPrefix, func(key string, _ []byte) bool {
		if id := key[len(mastercfg.PolicyPrefix):]; !wanted[id] {
			found = append(found, "binding "+id+", which no group names, deleted")
			tx.Delete(key)
		}
		return true
	})
	return found, nil
}

// reattach makes the binding of a policy to a group, if both are there.
func reattach(tx *ledger.Tx, g *contivmodel.EndpointGroup, name string) (bool, error) {
	policy, err := Get[contivmodel.Policy](tx, g.TenantName+":"+name, nil)
	if err != nil || policy == nil {
		return false, err
	}
	rec, err := GetGroup(tx, mastercfg.EndpointGroupID(g.TenantName, g.GroupName))
	if err != nil {
		return false, err
	}
	return true, Attach(tx, g, rec.EndpointGroupID, policy)
}

// RewriteRules expands all rules anew, after a change that concerns every one.
func RewriteRules(tx *ledger.Tx) error {
	_, err := repairRules(tx)
	return err
}

// repairRules expands every rule anew on every group its policy is attached to
// and removes what no rule explains.
func repairRules(tx *ledger.Tx) (findings, error) {
	explained := map[string]bool{}
	var found findings
	err := each(tx, mastercfg.PolicyPrefix, func(_ string, b mastercfg.EpgPolicy) error {
		policyKey, ok := policyOfBinding(b.EpgPolicyKey)
		if !ok {
			return nil
		}
		policy, err := Get[contivmodel.Policy](tx, policyKey, nil)
		if err != nil || policy == nil {
			return err
		}
		for _, rule := range rulesOf(tx, policy) {
			wanted, err := expansion(tx, b, rule)
			if err != nil {
				return err
			}
			for _, w := range wanted {
				key := mastercfg.PolicyRulePrefix + w.RuleID
				explained[key] = true
				before, _ := tx.Get(key)
				if err := ledger.Write(tx, key, w); err != nil {
					return err
				}
				if after, _ := tx.Get(key); string(before) != string(after) {
					found = append(found, "rule "+w.RuleID+" rewritten")
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	tx.Range(mastercfg.PolicyRulePrefix, func(key string, _ []byte) bool {
		if !explained[key] {
			found = append(found, "rule "+key[len(mastercfg.PolicyRulePrefix):]+", which nothing explains, deleted")
			tx.Delete(key)
		}
		return true
	})
	return found, nil
}

// policyOfBinding is the model key of the policy in a binding id, T:G:T:P.
func policyOfBinding(id string) (key string, ok bool) {
	parts := strings.Split(id, ":")
	if len(parts) != 4 {
		return "", false
	}
	return parts[2] + ":" + parts[3], true
}

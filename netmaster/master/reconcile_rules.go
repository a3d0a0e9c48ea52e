package master

import (
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// repairBinding makes the bindings of a group match the policies that the group names; a binding that
// no group names is deleted.
func repairBinding(p *pass, key string) (findings, error) {
	id, isBinding := strings.CutPrefix(key, mastercfg.PolicyPrefix)
	if isBinding {
		if named, err := isNamed(p, id); named || err != nil {
			return nil, err
		}
		p.Delete(key)
		return findings{"binding " + id + ", which no group names, deleted"}, nil
	}
	g, ok := readSound[contivmodel.EndpointGroup](p, key)
	if !ok {
		return nil, nil
	}
	var found findings
	for _, name := range g.Policies {
		id := mastercfg.PolicyID(g.ModelKey(), g.TenantName+":"+name)
		if _, has := p.Get(mastercfg.PolicyPrefix + id); has {
			continue
		}
		attached, err := reattach(p.Tx, &g, name)
		if err != nil {
			return nil, err
		}
		if attached {
			found = append(found, "binding "+id+" made")
		}
	}
	return found, nil
}

// isNamed reports whether a group names the policy of a binding, T:G:T:P; true if the group cannot be read.
func isNamed(r ledger.Reader, bindingID string) (bool, error) {
	parts := strings.Split(bindingID, ":")
	if len(parts) != 4 {
		return false, nil
	}
	g, err := Get[contivmodel.EndpointGroup](r, parts[0]+":"+parts[1], errGone)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil {
		return true, ignoreCorrupt(err)
	}
	return parts[2] == g.TenantName && slices.Contains(g.Policies, parts[3]), nil
}

// reattach writes the binding of a policy to a group, if both exist. Rules that cannot be read are left out, and
// reported with others that cannot: a group without any rule of its policy would be worse off.
func reattach(tx *ledger.Tx, g *contivmodel.EndpointGroup, name string) (bool, error) {
	policy, err := Get[contivmodel.Policy](tx, g.TenantName+":"+name, nil)
	if err != nil || policy == nil {
		return false, err
	}
	rec, err := GetGroup(tx, mastercfg.EndpointGroupID(g.TenantName, g.GroupName))
	if err != nil {
		return false, err
	}
	rules, _ := rulesOf(tx, policy)
	return true, attach(tx, g, rec.EndpointGroupID, policy, rules)
}

// RewriteRules expands all rules again, after a change that affects each of them.
func RewriteRules(tx *ledger.Tx) (err error) {
	tx.Range(mastercfg.PolicyPrefix, func(key string, _ []byte) bool {
		_, err = expandBinding(tx, key)
		return err == nil
	})
	return err
}

// repairRule expands the rules of a binding again; a rule whose binding is gone is deleted.
func repairRule(p *pass, key string) (findings, error) {
	id, isRule := strings.CutPrefix(key, mastercfg.PolicyRulePrefix)
	if !isRule {
		return expandBinding(p.Tx, key)
	}
	if parts := strings.Split(id, ":"); len(parts) > 4 {
		if _, has := p.Get(mastercfg.PolicyPrefix + strings.Join(parts[:4], ":")); has {
			return nil, nil
		}
	}
	p.Delete(key)
	return findings{unexplained(id)}, nil
}

func unexplained(ruleID string) string { return "rule " + ruleID + ", which nothing explains, deleted" }

// expandBinding expands every rule of a binding's policy again and deletes expansions that belong to no rule. Those
// of a rule that cannot be read stay as they are.
func expandBinding(tx *ledger.Tx, key string) (findings, error) {
	b, ok := readSound[mastercfg.EpgPolicy](tx, key)
	policyKey, composed := policyOfBinding(b.EpgPolicyKey)
	if !ok || !composed {
		return nil, nil
	}
	var found findings
	explained := map[string]bool{}
	policy, err := Get[contivmodel.Policy](tx, policyKey, nil)
	if err != nil {
		return nil, ignoreCorrupt(err)
	}
	if policy != nil {
		readable, others := rulesOf(tx, policy)
		for _, rule := range readable {
			wanted, err := expansion(tx, b, rule)
			if err != nil {
				return nil, err
			}
			for _, w := range wanted {
				key := mastercfg.PolicyRulePrefix + w.RuleID
				explained[key] = true
				changed, err := changes(tx, func() error { return ledger.Write(tx, key, w) }, key)
				if err != nil {
					return nil, err
				}
				if changed {
					found = append(found, "rule "+w.RuleID+" rewritten")
				}
			}
		}
		for _, rule := range others { // what they deny must not pass because they cannot be read
			for _, direction := range directions {
				explained[mastercfg.PolicyRulePrefix+mastercfg.RuleID(b.ID, rule, direction)] = true
			}
		}
	}
	tx.Range(mastercfg.PolicyRulePrefix+b.ID+":", func(key string, _ []byte) bool {
		if !explained[key] {
			found = append(found, unexplained(key[len(mastercfg.PolicyRulePrefix):]))
			tx.Delete(key)
		}
		return true
	})
	return found, nil
}

// policyOfBinding returns the model key of the policy in a binding id, T:G:T:P.
func policyOfBinding(id string) (key string, ok bool) {
	parts := strings.Split(id, ":")
	if len(parts) != 4 {
		return "", false
	}
	return parts[2] + ":" + parts[3], true
}

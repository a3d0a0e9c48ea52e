package classes

import "slices"

// A rule whose peers are all pods of the cluster can be written as a rule about any pod, or as a list of all
// classes. Such lists are rewritten with each class that is added or removed, for every such rule. Agents of
// earlier versions support lists only.

// UseAnyPod sets whether rules are written as rules about any pod from now on.
func (e *Engine) UseAnyPod(use bool) {
	if e.anyPod == use {
		return
	}
	e.anyPod = use
	for id, p := range e.policies {
		if slices.ContainsFunc(p.spec.Rules, Rule.isAnyPod) {
			e.dirtyPolicies[id] = struct{}{}
		}
	}
}

// lists reports whether the rules of a policy name the classes that match a selector, as subjects or as peers. If
// the policy is not known yet, they may.
func (e *Engine) lists(id string, s *selector) bool {
	p := e.policies[id]
	if p == nil || p.subject == s {
		return true
	}
	for i, peers := range p.peers {
		if slices.Contains(peers, s) && !(e.anyPod && p.spec.Rules[i].isAnyPod()) {
			return true
		}
	}
	return false
}

package classes

import "slices"

// A rule whose peers are all pods of the cluster can say so, or list the classes that there are. A list is written anew with each
// class that comes or goes, for every such rule. Agents of earlier versions know lists only.

// UseAnyPod says whether rules are written as ones about any pod, from now on.
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

// lists tells whether the rules of a policy name the classes that a selector of it finds, as subjects or as peers. Those of one
// that is not entered yet may.
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

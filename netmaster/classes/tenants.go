package classes

import (
	"maps"
	"slices"
)

// Pods of different tenants do not reach each other, whatever policies say: a peer of another
// tenant is a mistake that somebody should be told of.

// settleTenant counts the pods of tenants.
func (e *Engine) settleTenant(p *pod, now string, counted bool) {
	if counted && p.tenant != "" {
		if e.tenants[p.tenant]--; e.tenants[p.tenant] == 0 {
			delete(e.tenants, p.tenant)
		}
	}
	if p.tenant = now; now != "" {
		e.tenants[now]++
	}
}

// strangers are the tenants of a policy's peers that none of its subjects is of. A peer that
// is all pods means those that can be reached. other tells that they are not those that were told last.
func (e *Engine) strangers(id string, by map[uint16]map[string]struct{}) (tenants []string, other bool) {
	if p := e.policies[id]; p != nil && by != nil {
		var peers []*selector
		for _, s := range slices.Concat(p.peers...) {
			if s.spec.Namespace != "" || len(s.spec.Namespaces)+len(s.spec.Pods) > 0 {
				peers = append(peers, s)
			}
		}
		ours, theirs := tenantsOf(by, p.subject), tenantsOf(by, peers...)
		maps.DeleteFunc(theirs, func(tenant string, _ struct{}) bool { _, own := ours[tenant]; return own || len(ours) == 0 })
		tenants = slices.Sorted(maps.Keys(theirs))
	}
	other = !slices.Equal(tenants, e.strange[id])
	if e.strange[id] = tenants; len(tenants) == 0 {
		delete(e.strange, id)
	}
	return tenants, other && len(tenants) > 0
}

// tenantsByClass are the tenants of the pods of each class; of all at once, as there are more pods than
// classes. nil: all pods are of one tenant.
func (e *Engine) tenantsByClass() map[uint16]map[string]struct{} {
	if len(e.tenants) < 2 {
		return nil
	}
	by := map[uint16]map[string]struct{}{}
	for _, p := range e.pods {
		if by[p.class] == nil {
			by[p.class] = map[string]struct{}{}
		}
		if p.tenant != "" {
			by[p.class][p.tenant] = struct{}{}
		}
	}
	return by
}

// tenantsOf are the tenants of pods that selectors find.
func tenantsOf(by map[uint16]map[string]struct{}, selectors ...*selector) map[string]struct{} {
	all := map[string]struct{}{}
	for _, s := range selectors {
		for number := range s.classes {
			maps.Copy(all, by[number])
		}
	}
	return all
}

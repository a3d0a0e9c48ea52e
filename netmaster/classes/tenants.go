package classes

import (
	"maps"
	"slices"
)

// Pods of different tenants never reach each other, whatever policies allow: a peer of another tenant is a mistake
// that is reported.

// settleTenant updates the numbers of pods by tenant, and in a class; now is empty when the pod is removed.
func (e *Engine) settleTenant(p *pod, now string) {
	if p.tenant == now {
		return
	}
	c := e.classes[p.class]
	c.count(p.tenant, -1)
	add(e.tenants, p.tenant, -1)
	p.tenant = now
	c.count(now, 1)
	add(e.tenants, now, 1)
}

// count adds members of a tenant to a class; class 0 and pods of no tenant are not counted.
func (c *class) count(tenant string, more int) {
	if c == nil || tenant == "" {
		return
	}
	if c.tenants == nil {
		c.tenants = map[string]int{}
	}
	add(c.tenants, tenant, more)
}

func add(counts map[string]int, tenant string, more int) {
	if tenant == "" {
		return
	}
	if counts[tenant] += more; counts[tenant] == 0 {
		delete(counts, tenant)
	}
}

// findStrangers finds the tenants of a policy's peers to which none of its subjects belongs. A peer of all pods
// means all reachable pods.
func (e *Engine) findStrangers(id string) {
	delete(e.strange, id)
	if p := e.policies[id]; p != nil && len(e.tenants) > 1 {
		var peers []*selector
		for _, s := range slices.Concat(p.peers...) {
			if !s.spec.isAnyPod() {
				peers = append(peers, s)
			}
		}
		ours, theirs := e.tenantsOf(p.subject), e.tenantsOf(peers...)
		maps.DeleteFunc(theirs, func(tenant string, _ struct{}) bool { _, own := ours[tenant]; return own || len(ours) == 0 })
		if len(theirs) > 0 {
			e.strange[id] = slices.Sorted(maps.Keys(theirs))
		}
	}
}

// tenantsOf returns the tenants of pods that match selectors.
func (e *Engine) tenantsOf(selectors ...*selector) map[string]struct{} {
	all := map[string]struct{}{}
	for _, s := range selectors {
		for number := range s.classes {
			for tenant := range e.classes[number].tenants {
				all[tenant] = struct{}{}
			}
		}
	}
	return all
}

package k8s

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// The only port of a service may have no name, and must get one when a second port is added. The service
// changes first, then a controller updates its slices. Until then the slices have the former name; without
// knowledge of it, the port would have no backends, and new connections would be refused.

// formerNames are former names of a service's ports, the latest first, as long as slices may have them.
type formerNames struct {
	of    map[portID][]string // by present port
	until time.Time
}

// formerNamesOf returns the former names of a service's ports, from its record in the store, which the caller
// replaces. Later leaders do not know them.
func (b *balancer) formerNamesOf(r ledger.Reader, key string, service mastercfg.K8sService, now time.Time) formerNames {
	b.mu.Lock()
	defer b.mu.Unlock()
	former := b.former[key]
	if !former.until.After(now) {
		former = formerNames{}
	}
	for tenant := range b.tenants[key] { // the ports are the same in each
		noted, err := ledger.Read[mastercfg.K8sService](r, mastercfg.K8sServiceKey(tenant, service.Namespace, service.Name))
		if err != nil {
			continue // not written yet, or damaged
		}
		of, renamed := former.after(noted.Ports, service.Ports)
		if former.of = of; renamed {
			former.until = now.Add(b.grace)
		}
		break
	}
	if b.former[key] = former; len(former.of) == 0 {
		delete(b.former, key)
	}
	return former
}

// forgetNames drops those of a deleted service.
func (b *balancer) forgetNames(service string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.former, service)
}

// after returns the former names after a change of the ports, and whether a port was renamed.
func (f formerNames) after(before, now []mastercfg.K8sServicePort) (of map[portID][]string, renamed bool) {
	id := func(p mastercfg.K8sServicePort) portID { return portIDOf(p.Name, corev1.Protocol(p.Protocol)) }
	has := func(ports []mastercfg.K8sServicePort, one portID) bool {
		return slices.ContainsFunc(ports, func(p mastercfg.K8sServicePort) bool { return id(p) == one })
	}
	of = map[portID][]string{}
	note := func(one portID, names []string) {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return has(now, portID{name, one.protocol}) })
		if len(names) > 0 && has(now, one) {
			of[one] = names
		}
	}
	for one, names := range f.of {
		note(one, names)
	}
	for _, p := range now {
		i := slices.IndexFunc(before, func(b mastercfg.K8sServicePort) bool { return b.Port == p.Port && b.Protocol == p.Protocol })
		if i < 0 || has(before, id(p)) || has(now, id(before[i])) {
			continue
		}
		names := append([]string{before[i].Name}, f.of[id(before[i])]...) // names from before are not the service's any more
		for _, name := range of[id(p)] {                                  // found before, and not written
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		note(id(p), names)
		renamed = true
	}
	return of, renamed
}

// renameSlices returns the slices with the present names of their ports; behind: one of them has a former name.
func (f formerNames) renameSlices(objects []any) (all []any, behind bool) {
	if len(f.of) == 0 {
		return objects, false
	}
	for _, object := range objects {
		slice := object.(*discoveryv1.EndpointSlice) // the index has nothing else
		if ports, changed := f.renamePorts(slice.Ports); changed {
			renamed := *slice // the original is the informer's
			renamed.Ports, behind = ports, true
			object = &renamed
		}
		all = append(all, object)
	}
	return all, behind
}

// renamePorts returns the ports of a slice with their present names, and whether one was renamed.
func (f formerNames) renamePorts(ports []discoveryv1.EndpointPort) (all []discoveryv1.EndpointPort, changed bool) {
	find := func(name string, protocol corev1.Protocol) int {
		return slices.IndexFunc(ports, func(p discoveryv1.EndpointPort) bool {
			return portIDOf(ptr.Deref(p.Name, ""), ptr.Deref(p.Protocol, "")) == portIDOf(name, protocol)
		})
	}
	all = slices.Clone(ports)
	for now, before := range f.of {
		if find(now.name, now.protocol) >= 0 {
			continue // it has the new name already
		}
		for _, name := range before {
			if i := find(name, now.protocol); i >= 0 {
				all[i].Name, changed = ptr.To(now.name), true
				break
			}
		}
	}
	return all, changed
}

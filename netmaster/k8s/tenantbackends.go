package k8s

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/inet"
)

// tenantBackends are the backends of a service by the tenant of their pods.
type tenantBackends struct {
	of         map[string][]backend  // the tenant of the service's namespace is always in it
	everywhere []backend             // no pods: they serve in every tenant
	nowhere    map[netip.Addr]string // why those at these addresses are not reached, or not yet
}

// byTenant finds the tenants of a service's backends. home is that of its namespace; empty: it has none.
func (b *balancer) byTenant(r ledger.Reader, namespace, home string, list []backend) (all tenantBackends, err error) {
	all.of, all.nowhere = map[string][]backend{}, map[netip.Addr]string{}
	if home != "" {
		all.of[home] = nil
	}
	for _, one := range list {
		switch at, err := b.owner(r, namespace, home, one); {
		case err != nil:
			return all, err
		case at.ended: // it is among a service's until Kubernetes looks at its slice again
		case at.unknown:
			all.nowhere[one.Address.Addr()] = unknownAddressText(one.Address.Addr())
		case at.tenant == "":
			all.everywhere = append(all.everywhere, one)
			if err := b.noteVirtual(all.nowhere, one); err != nil {
				return all, err
			}
		default:
			all.of[at.tenant] = append(all.of[at.tenant], one)
		}
	}
	return all, nil
}

// ofTenant returns the backends that serve in a tenant.
func (t tenantBackends) ofTenant(tenant string) []backend {
	return slices.Concat(t.of[tenant], t.everywhere)
}

// otherTenants describes a service whose pods belong to several tenants; empty: they belong to one. home is the
// tenant of its namespace.
func (t tenantBackends) otherTenants(home string) string {
	var tenants []string
	for _, tenant := range slices.Sorted(maps.Keys(t.of)) {
		if len(t.of[tenant]) > 0 {
			tenants = append(tenants, tenant)
		}
	}
	if len(tenants) < 2 {
		return ""
	}
	return fmt.Sprintf("the pods behind it are of tenants %s: a client gets those of its own tenant, and nodes get those of %s; "+
		"if that is not what you want, let its selector find pods of one tenant, and give each tenant a service of its own", strings.Join(tenants, ", "), t.tenantForHosts(home))
}

// tenantForHosts returns the tenant whose backends serve processes of nodes: that of the namespace, unless only
// other tenants have backends.
func (t tenantBackends) tenantForHosts(home string) string {
	if home != "" && len(t.ofTenant(home)) > 0 {
		return home
	}
	for _, tenant := range slices.Sorted(maps.Keys(t.of)) {
		if len(t.of[tenant]) > 0 {
			return tenant
		}
	}
	return home
}

// noteVirtual notes a backend that is no pod and whose address is the cluster address of a service: packets are
// translated once. It stays a backend, as such a range may have been made over addresses that others have, such as
// an API server.
func (b *balancer) noteVirtual(nowhere map[netip.Addr]string, one backend) error {
	if one.Pod != "" {
		return nil
	}
	address := one.Address.Addr()
	all, err := b.addressed.ByIndex(addressIndex, address.String())
	for _, object := range all {
		s := object.(*corev1.Service) // the index has nothing else
		if record, served := serviceRecord(s); served && slices.Contains(record.Addresses, address) {
			nowhere[address] = fmt.Sprintf("%s is the cluster address of service %s/%s, and no packet is led from one service to another; "+
				"name the addresses of the pods behind that service", address, s.Namespace, s.Name)
		}
	}
	return err
}

// mayBecomeVirtual reports whether a backend that is no pod has an address that Kubernetes may give to a service, at
// any time.
func (b *balancer) mayBecomeVirtual(list []backend) bool {
	var all []claim
	for _, object := range b.ranges.GetStore().List() {
		for _, text := range object.(*networkingv1.ServiceCIDR).Spec.CIDRs { // the store has nothing else
			all = claimed(all, "", text)
		}
	}
	return slices.ContainsFunc(list, func(one backend) bool {
		return one.Pod == "" && overlapping(inet.Host(one.Address.Addr()), all) != nil
	})
}

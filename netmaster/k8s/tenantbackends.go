package k8s

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/objdb/ledger"
)

// tenantBackends are the backends of a service by the tenant of their pods.
type tenantBackends struct {
	of         map[string][]backend // the tenant of the service's namespace is always in it
	everywhere []backend            // no pods: they serve in every tenant
	strangers  map[netip.Addr]bool  // of those at these addresses it is not known, or not yet, whose they are
}

// byTenant finds the tenants of a service's backends. home is that of its namespace; empty: it has none.
func (b *balancer) byTenant(r ledger.Reader, namespace, home string, list []backend) (all tenantBackends, err error) {
	all.of, all.strangers = map[string][]backend{}, map[netip.Addr]bool{}
	if home != "" {
		all.of[home] = nil
	}
	for _, one := range list {
		switch at, err := b.owner(r, namespace, home, one); {
		case err != nil:
			return all, err
		case at.unknown:
			all.strangers[one.Address.Addr()] = true
		case at.tenant == "":
			all.everywhere = append(all.everywhere, one)
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

// otherTenants describes a service whose pods belong to several tenants; empty: they belong to one. home is the tenant of its namespace.
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

// tenantForHosts is the tenant whose backends serve processes of nodes: that of the namespace, unless only
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

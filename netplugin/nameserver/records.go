package nameserver

import (
	"net/netip"
	"slices"
	"strings"
)

// Records are the names of a tenant, by kind: services, and by their names providers,
// endpointGroups, commonNames, endpoints.
type Records map[string]map[string][]string

// Records lists the names of all tenants for inspection, each with its addresses:
// "ipv4:ADDRESS ipv6:ADDRESS".
func (z *Zones) Records() map[string]Records {
	z.mu.RLock()
	defer z.mu.RUnlock()
	all := map[string]Records{}
	for tenant := range z.tenants {
		all[tenant] = Records{"services": {}, "providers": {}, "endpointGroups": {}, "commonNames": {}, "endpoints": {}}
	}
	add := func(tenant, kind, name string, addresses ...netip.Addr) {
		all[tenant][kind][name] = append(all[tenant][kind][name], describe(addresses))
	}
	for _, s := range z.services {
		add(s.Tenant, "services", s.Name, s.addresses()...)
		for _, a := range s.Providers {
			add(s.Tenant, "providers", s.Name, a)
		}
	}
	kinds := [classes]string{byGroup: "endpointGroups", byContainer: "commonNames", byRuntime: "endpoints"}
	for _, h := range z.endpoints {
		for class, name := range h.names {
			if name != "" {
				add(h.Tenant, kinds[class], name, h.IPv4, h.IPv6)
			}
		}
	}
	for _, records := range all {
		for _, names := range records {
			for _, who := range names {
				slices.Sort(who)
			}
		}
	}
	return all
}

func describe(addresses []netip.Addr) string {
	var parts []string
	for _, a := range addresses {
		switch {
		case a.Is4():
			parts = append(parts, "ipv4:"+a.String())
		case a.IsValid():
			parts = append(parts, "ipv6:"+a.String())
		}
	}
	return strings.Join(parts, " ")
}

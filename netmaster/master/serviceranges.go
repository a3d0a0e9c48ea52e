package master

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// InServices finds networks that overlap a service range of Kubernetes: the first one of each tenant that has services.
func InServices(r ledger.Reader, services netip.Prefix) (networks []*contivmodel.Network, err error) {
	for tenant := range tenantsWithServices(r) {
		n, err := overlapOfRange(r, tenant, services)
		if err != nil {
			return nil, err
		}
		if n != nil {
			networks = append(networks, n)
		}
	}
	return networks, nil
}

// SubnetLike returns the subnet of a network in the IP family of a range.
func SubnetLike(n *contivmodel.Network, p netip.Prefix) string {
	if p.Addr().Is6() {
		return n.Ipv6Subnet
	}
	return n.Subnet
}

// ServicesIn finds a service range of Kubernetes that overlaps a network to be created for a tenant with
// services; invalid if there is none.
func ServicesIn(r ledger.Reader, n *contivmodel.Network) (services netip.Prefix, err error) {
	record, err := ledger.Read[mastercfg.K8sServiceRanges](r, mastercfg.K8sRangesKey)
	if fault.Is(err, fault.NotFound) {
		return netip.Prefix{}, nil
	}
	if err != nil || !hasServices(r, n.TenantName) {
		return netip.Prefix{}, err
	}
	four, err4 := resources.ParseSubnet(n.Subnet)
	six, err6 := resources.ParseIPv6Subnet(n.Ipv6Subnet) // else empty, or refused later
	for _, p := range record.Ranges {
		if p.Addr().Is6() {
			if err6 == nil && six.Overlaps(p) {
				return p, nil
			}
			continue
		}
		if subnet, err := resources.ParseSubnet(p.String()); err4 == nil && err == nil && four.Overlaps(subnet) {
			return p, nil
		}
	}
	return netip.Prefix{}, nil
}

// tenantsWithServices returns the tenants that have services of Kubernetes, in order; tenant default always counts.
func tenantsWithServices(r ledger.Reader) iter.Seq[string] {
	tenants := map[string]struct{}{mastercfg.DefaultTenant: {}}
	r.Range(mastercfg.K8sServicePrefix, func(key string, _ []byte) bool {
		tenant, _, _ := strings.Cut(strings.TrimPrefix(key, mastercfg.K8sServicePrefix), "/")
		tenants[tenant] = struct{}{}
		return true
	})
	return slices.Values(slices.Sorted(maps.Keys(tenants)))
}

func hasServices(r ledger.Reader, tenant string) bool {
	some := tenant == mastercfg.DefaultTenant
	r.Range(mastercfg.K8sServicePrefix+tenant+"/", func(string, []byte) bool { some = true; return false })
	return some
}

func overlapOfRange(r ledger.Reader, tenant string, p netip.Prefix) (*contivmodel.Network, error) {
	if p.Addr().Is6() {
		return OverlapIPv6(r, tenant, p)
	}
	subnet, err := resources.ParseSubnet(p.String())
	if err != nil {
		return nil, err
	}
	return OverlapIPv4(r, tenant, subnet)
}

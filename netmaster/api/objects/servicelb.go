package objects

import (
	"cmp"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

func createServiceLB(c *Change, s *contivmodel.ServiceLB) error {
	tenant, network, err := placeOf(c, s)
	if err != nil {
		return err
	}
	if err := master.DeriveService(c.Tx, s); err != nil {
		return err
	}
	s.Links.Tenant, s.Links.Network = contivmodel.LinkTo(tenant), contivmodel.LinkTo(network)
	return c.put(s)
}

// placeOf validates a service, in the documented order, and returns its tenant and network.
func placeOf(c *Change, s *contivmodel.ServiceLB) (*contivmodel.Tenant, *contivmodel.Network, error) {
	if err := master.CheckSelectors(s.Selectors); err != nil {
		return nil, nil, err
	}
	if err := master.CheckPorts(s.Ports); err != nil {
		return nil, nil, err
	}
	if err := master.CheckEntrances(s); err != nil {
		return nil, nil, err
	}
	tenant, err := tenantOf(c, s.TenantName)
	if err != nil {
		return nil, nil, err
	}
	network, err := master.Get[contivmodel.Network](c, s.TenantName+":"+s.NetworkName, missing("Network %s not found", s.NetworkName))
	return tenant, network, err
}

// updateServiceLB replaces everything except the key. The virtual
// address stays unless the network, or the requested address, changes.
func updateServiceLB(c *Change, stored, wanted *contivmodel.ServiceLB) error {
	*stored = *wanted
	return createServiceLB(c, stored)
}

func removeServiceLB(c *Change, s *contivmodel.ServiceLB) error {
	master.RemoveService(c.Tx, mastercfg.ServiceID(s.TenantName, s.ServiceName))
	master.Drop(c.Tx, s)
	return nil
}

// InspectService returns a service and its providers, without the counters of nodes.
func InspectService(v ledger.Reader, s *contivmodel.ServiceLB) (shown contivmodel.ServiceLBInspect, err error) {
	rec, err := master.GetService(v, mastercfg.ServiceID(s.TenantName, s.ServiceName))
	if err != nil {
		return shown, err
	}
	all, err := master.Containers(v, s.TenantName)
	if err != nil {
		return shown, err
	}
	oper := contivmodel.ServiceLBOper{ServiceVip: cmp.Or(rec.IPAddress, rec.IPv6Address)}
	if rec.IPAddress != "" {
		oper.ServiceVip6 = rec.IPv6Address
	}
	for _, ep := range master.Selected(&rec, all) {
		provider := EndpointOper(&ep)
		provider.ServiceName = s.ServiceName
		oper.Providers = append(oper.Providers, provider)
	}
	slices.SortFunc(oper.Providers, func(a, b contivmodel.EndpointOper) int { return strings.Compare(a.EndpointID, b.EndpointID) })
	oper.NumProviders = len(oper.Providers)
	return contivmodel.ServiceLBInspect{Config: *s, Oper: oper}, nil
}

package api

import (
	"net/netip"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

func createNetwork(c *change, n *contivmodel.Network) error {
	if err := globalReady(c, n.Encap); err != nil {
		return err
	}
	if n.TenantName == "" {
		return fault.New(fault.Invalid, "Invalid tenant name").WithField("tenantName")
	}
	tenant, err := tenantOf(c, n.TenantName)
	if err != nil {
		return err
	}
	if err := noOverlap(c, tenant, n); err != nil {
		return err
	}
	if master.Exists(c, "endpointGroup", n.ModelKey()) {
		return fault.New(fault.Conflict, "EndpointGroup %s conflicts with the network name", n.NetworkName).
			WithDetails("endpointGroup " + n.ModelKey())
	}
	if err := master.DeriveNetwork(c.Tx, n); err != nil {
		return err
	}
	n.Links.Tenant = contivmodel.LinkTo(tenant)
	tenant.LinkSets.Networks.Add(n)
	if err := master.Put(c.Tx, n); err != nil {
		return err
	}
	if err := master.Put(c.Tx, tenant); err != nil {
		return err
	}
	return networkChanged(c, n)
}

// globalReady refuses networks before the global object says how they are to work.
func globalReady(r objdb.Reader, encap string) error {
	g, err := master.Get[contivmodel.Global](r, contivmodel.GlobalName,
		fault.New(fault.Mode, "Global configuration is not ready: there is no global object"))
	switch {
	case err != nil:
		return err
	case g.FwdMode == "":
		return fault.New(fault.Mode, "Global configuration is not ready: forwarding mode is not set")
	case encap == "vlan" && g.Vlans == "":
		return fault.New(fault.Mode, "Global configuration is not ready: vlan range is not set")
	case encap == "vxlan" && g.Vxlans == "":
		return fault.New(fault.Mode, "Global configuration is not ready: vxlan range is not set")
	}
	return nil
}

// noOverlap compares a network with the others of its tenant; tenants may overlap each other.
func noOverlap(r objdb.Reader, tenant *contivmodel.Tenant, n *contivmodel.Network) error {
	subnet, err := resources.ParseSubnet(n.Subnet)
	if err != nil {
		return err
	}
	for _, key := range keys(tenant.LinkSets.Networks) {
		other, err := master.Get[contivmodel.Network](r, key, nil)
		if err != nil {
			return err
		}
		if other == nil {
			continue
		}
		if overlapIPv6(n.Ipv6Subnet, other.Ipv6Subnet) {
			return fault.New(fault.Conflict, "network %s conflicts with subnetv6  %s", other.NetworkName, other.Ipv6Subnet).
				WithField("ipv6Subnet").WithDetails("network " + key)
		}
		if theirs, err := resources.ParseSubnet(other.Subnet); err == nil && subnet.Overlaps(theirs) {
			return fault.New(fault.Conflict, "network %s conflicts with subnet %s", other.NetworkName, other.Subnet).
				WithField("subnet").WithDetails("network " + key)
		}
	}
	return nil
}

func overlapIPv6(a, b string) bool {
	first, err := netip.ParsePrefix(a)
	if err != nil {
		return false // empty; what is malformed is refused later
	}
	second, err := netip.ParsePrefix(b)
	return err == nil && first.Overlaps(second)
}

// networkChanged re-expands the rules that name a network which came or went.
func networkChanged(c *change, n *contivmodel.Network) error {
	names := func(r *contivmodel.Rule) bool {
		return r.FromNetwork == n.NetworkName || r.ToNetwork == n.NetworkName
	}
	return master.PeerChanged(c.Tx, n.TenantName, names, func(*contivmodel.Rule) {})
}

func updateNetwork(_ *change, _, _ *contivmodel.Network) error {
	return fault.New(fault.Immutable, "Cant change network parameters after its created")
}

func removeNetwork(c *change, n *contivmodel.Network) error {
	tenant, err := tenantOf(c, n.TenantName)
	if err != nil {
		return err
	}
	if links := n.LinkSets.EndpointGroups; len(links) > 0 {
		return fault.New(fault.InUse, "cannot delete %s has %d endpoint groups", n.NetworkName, len(links)).WithDetails(names(links)...)
	}
	if links := n.LinkSets.Servicelbs; len(links) > 0 {
		return fault.New(fault.InUse, "cannot delete %s has %d services ", n.NetworkName, len(links)).WithDetails(names(links)...)
	}
	rec, err := master.GetNetwork(c, mastercfg.NetworkID(n.TenantName, n.NetworkName))
	if err == nil {
		if rec.NwType != "infra" && rec.EpCount > 0 {
			return fault.New(fault.InUse, "Error: Network has active endpoints")
		}
		err = master.RemoveNetwork(c.Tx, &rec)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	tenant.LinkSets.Networks.Remove(n)
	if err := master.Put(c.Tx, tenant); err != nil {
		return err
	}
	master.Drop(c.Tx, n)
	return networkChanged(c, n)
}

func inspectNetwork(r *view, n *contivmodel.Network) (any, error) {
	byNetwork, _, err := endpointIndex(r)
	if err != nil {
		return nil, err
	}
	oper, err := networkOper(r, n.ModelKey(), byNetwork)
	return contivmodel.NetworkInspect{Config: *n, Oper: oper}, err
}

// networkOper is the run-time view of a network, given by its model key.
func networkOper(r objdb.Reader, key string, byNetwork endpointsBy) (contivmodel.NetworkOper, error) {
	var none contivmodel.NetworkOper
	n, err := master.Get[contivmodel.Network](r, key, notFound("network"))
	if err != nil {
		return none, err
	}
	rec, err := master.GetNetwork(r, mastercfg.NetworkID(n.TenantName, n.NetworkName))
	if err != nil {
		return none, err
	}
	pool, err := resources.NetworkPool(&rec)
	if err != nil {
		return none, err
	}
	return contivmodel.NetworkOper{
		PktTag: rec.PktTag, ExternalPktTag: rec.ExtPktTag, NetworkTag: rec.NetworkTag,
		NumEndpoints: rec.EpCount, AllocatedAddressesCount: rec.EpAddrCount,
		AllocatedIPAddresses: pool.Allocated(), AvailableIPAddresses: pool.Available(),
		Endpoints: byNetwork[rec.ID],
	}, nil
}

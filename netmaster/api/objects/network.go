package objects

import (
	"cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/jsonstream"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

func createNetwork(c *Change, n *contivmodel.Network) error {
	mode, err := readyMode(c, n.Encap)
	if err != nil {
		return err
	}
	if n.TenantName == "" {
		return fault.New(fault.Invalid, "Invalid tenant name").WithField("tenantName").
			WithExplanation("tenantName is empty: want the name of a tenant, such as blue")
	}
	tenant, err := tenantOf(c, n.TenantName)
	if err != nil {
		return err
	}
	if err := noOverlap(c, n); err != nil {
		return err
	}
	if n.Encap == "vlan" && mode == "routing" {
		if err := aloneOutside(c, n); err != nil {
			return err
		}
		if err := noNodeIn(c, n); err != nil {
			return err
		}
	}
	if master.Exists(c, "endpointGroup", n.ModelKey()) {
		return fault.New(fault.Conflict, "EndpointGroup %s conflicts with the network name", n.NetworkName).
			WithDetails("endpointGroup " + n.ModelKey())
	}
	bounded, err := c.ofTenants()
	if err != nil {
		return err
	}
	if err := master.NetworkVacated(c, mastercfg.NetworkID(n.TenantName, n.NetworkName), !bounded); err != nil {
		return err
	}
	if err := master.DeriveNetwork(c.Tx, n); err != nil {
		return refusedTag(c, n, err)
	}
	n.Links.Tenant = contivmodel.LinkTo(tenant)
	if err := master.Put(c.Tx, n); err != nil {
		return err
	}
	return master.NetworkChanged(c.Tx, n.TenantName, n.NetworkName)
}

// readyMode returns the forwarding mode. It fails as long as the global
// object does not define how networks with this encapsulation work.
func readyMode(r ledger.Reader, encap string) (string, error) {
	g, err := master.GetShared[contivmodel.Global](r, contivmodel.GlobalName,
		fault.New(fault.Mode, "Global configuration is not ready: there is no global object"))
	switch {
	case err != nil:
		return "", err
	case g.FwdMode == "":
		return "", fault.New(fault.Mode, "Global configuration is not ready: forwarding mode is not set")
	case encap == "vlan" && g.Vlans == "":
		return "", fault.New(fault.Mode, "Global configuration is not ready: vlan range is not set")
	case encap == "vxlan" && g.Vxlans == "":
		return "", fault.New(fault.Mode, "Global configuration is not ready: vxlan range is not set")
	}
	return g.FwdMode, nil
}

// noOverlap refuses overlaps with other networks of the tenant; those of other tenants may overlap.
func noOverlap(r ledger.Reader, n *contivmodel.Network) error {
	o, err := overlapOf(r, n.TenantName, n)
	if err != nil {
		return err
	}
	if o == nil {
		return cmp.Or(noExternal(r, n), noServices(r, n))
	}
	text := "network %s conflicts with subnet %s"
	if o.field == "ipv6Subnet" {
		text = "network %s conflicts with subnetv6  %s"
	}
	return fault.New(fault.Conflict, text, o.with.NetworkName, o.theirs).WithField(o.field).WithDetails("network " + o.with.Key)
}

// noExternal refuses a network that contains an external address of one of its tenant's services.
func noExternal(r ledger.Reader, n *contivmodel.Network) error {
	service, at := master.ExternalIn(r, n.TenantName, n)
	if service == "" {
		return nil
	}
	field := "subnet"
	if at.Is6() {
		field = "ipv6Subnet"
	}
	return fault.New(fault.Conflict, "network %s: external address %s of service %s is in its %s", n.NetworkName, at, service, field).
		WithField(field).WithDetails("serviceLB " + service)
}

// noServices refuses a network that overlaps with the service
// CIDRs of Kubernetes, in a tenant with Kubernetes services.
func noServices(r ledger.Reader, n *contivmodel.Network) error {
	services, err := master.ServicesIn(r, n)
	if err != nil || !services.IsValid() {
		return err
	}
	field := "subnet"
	if services.Addr().Is6() {
		field = "ipv6Subnet"
	}
	return fault.New(fault.Conflict, "network %s: its %s %s overlaps %s, the addresses of services of Kubernetes: pods would reach only one of both",
		n.NetworkName, field, master.SubnetLike(n, services), services).WithField(field)
}

// aloneOutside refuses overlaps with the networks of all tenants that external routers know, and with the external
// addresses of all services: outside, an address is one host, whatever its tenant. Callers with rights in tenants
// only do not get the name of another tenant's network.
func aloneOutside(c *Change, n *contivmodel.Network) error {
	o, err := overlapOf(c, master.OnVLANs, n)
	if err != nil {
		return err
	}
	service, at := master.ExternalIn(c, master.OnVLANs, n)
	if service == "" {
		if service, at, err = master.K8sExternalIn(c, n); err != nil {
			return err
		}
	}
	if o == nil && service == "" {
		return nil
	}
	bounded, err := c.ofTenants()
	switch {
	case err != nil:
		return err
	case o == nil && bounded:
		return fault.New(fault.Conflict, "network %s has an external address of another tenant's services: routed networks of encapsulation vlan share the addresses outside", n.NetworkName)
	case o == nil:
		return fault.New(fault.Conflict, "network %s has %s, an external address of service %s: routed networks of encapsulation vlan share the addresses outside",
			n.NetworkName, at, service).WithDetails("serviceLB " + service)
	case bounded && o.with.TenantName != n.TenantName:
		return fault.New(fault.Conflict, "%s %s overlaps a network of another tenant: routed networks of encapsulation vlan share the addresses outside",
			o.field, o.own).WithField(o.field)
	}
	return fault.New(fault.Conflict, "%s %s overlaps %s of network %s of tenant %s: routed networks of encapsulation vlan share the addresses outside",
		o.field, o.own, o.theirs, o.with.NetworkName, o.with.TenantName).WithField(o.field).WithDetails("network " + o.with.Key)
}

// noNodeIn refuses a network that contains an address of a node, on the link of the external routers or where
// others reach its agent or tunnels: routers would get a route to it as an endpoint's. Callers with rights in
// tenants only do not get the address.
func noNodeIn(c *Change, n *contivmodel.Network) error {
	router, at := master.RouterIn(c, n)
	node := ""
	if router == "" {
		node, at = master.NodeIn(c, n)
	}
	if router == "" && node == "" {
		return nil
	}
	bounded, err := c.ofTenants()
	switch {
	case err != nil:
		return err
	case bounded && router != "":
		return fault.New(fault.Conflict, "network %s has the address of a node among the routers outside", n.NetworkName)
	case bounded:
		return fault.New(fault.Conflict, "network %s has the address of a node: routed networks of encapsulation vlan share the addresses outside", n.NetworkName)
	case router != "":
		return fault.New(fault.Conflict, "network %s has %s, the address of node %s among the routers outside", n.NetworkName, at, router).WithDetails("Bgp " + router)
	}
	return fault.New(fault.Conflict, "network %s has %s, the address at which node %s is reached: routed networks of encapsulation vlan share the addresses outside",
		n.NetworkName, at, node)
}

// overlap is the overlap of a network with another one.
type overlap struct {
	with        *contivmodel.Network
	field       string // JSON name
	own, theirs string
}

// overlapOf returns an overlap with a network of a tenant, or of master.OnVLANs; nil: none.
func overlapOf(r ledger.Reader, tenant string, n *contivmodel.Network) (*overlap, error) {
	if prefix, err := resources.ParseIPv6Subnet(n.Ipv6Subnet); err == nil { // otherwise empty, or refused later
		other, err := master.OverlapIPv6(r, tenant, prefix)
		if err != nil {
			return nil, err
		}
		if other != nil {
			return &overlap{other, "ipv6Subnet", n.Ipv6Subnet, other.Ipv6Subnet}, nil
		}
	}
	if n.Subnet == "" {
		return nil, nil
	}
	subnet, err := resources.ParseSubnet(n.Subnet)
	if err != nil {
		return nil, err
	}
	other, err := master.OverlapIPv4(r, tenant, subnet)
	if err != nil || other == nil {
		return nil, err
	}
	return &overlap{other, "subnet", n.Subnet, other.Subnet}, nil
}

func updateNetwork(_ *Change, n, _ *contivmodel.Network) error {
	return immutable(n, "Cant change network parameters after its created")
}

func removeNetwork(c *Change, n *contivmodel.Network) error {
	if _, err := tenantOf(c, n.TenantName); err != nil {
		return err
	}
	if err := c.mayRemoveNetwork(n); err != nil {
		return err
	}
	if links := n.LinkSets.EndpointGroups; len(links) > 0 {
		return fault.New(fault.InUse, "cannot delete %s has %d endpoint groups", n.NetworkName, len(links)).WithDetails(names(links)...)
	}
	if links := n.LinkSets.Servicelbs; len(links) > 0 {
		return fault.New(fault.InUse, "cannot delete %s has %d services ", n.NetworkName, len(links)).WithDetails(names(links)...)
	}
	if err := notDockers(c, n.TenantName, n.NetworkName, ""); err != nil {
		return err
	}
	rec, err := master.GetNetwork(c, mastercfg.NetworkID(n.TenantName, n.NetworkName))
	if err == nil {
		if endpoints := master.EndpointsIn(c, rec.ID); rec.NwType != "infra" && len(endpoints) > 0 {
			return fault.New(fault.InUse, "Error: Network has active endpoints").WithDetails(endpoints...)
		}
		err = master.RemoveNetwork(c.Tx, &rec)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	master.Drop(c.Tx, n)
	return master.NetworkChanged(c.Tx, n.TenantName, n.NetworkName)
}

func inspectNetwork(r *View, n *contivmodel.Network) (any, error) {
	oper, err := networkOper(r, n.ModelKey())
	return inspection(contivmodel.NetworkInspect{Config: *n}, oper), err
}

// networkOper returns the run-time view of a network, given by its model key.
func networkOper(r ledger.Reader, key string) (none jsonstream.Object, err error) {
	n, err := master.Get[contivmodel.Network](r, key, NotFound("network"))
	if err != nil {
		return none, err
	}
	rec, err := master.GetNetwork(r, mastercfg.NetworkID(n.TenantName, n.NetworkName))
	if err != nil {
		return none, err
	}
	pool, err := master.NetworkPool(r, &rec)
	if err != nil {
		return none, err
	}
	endpoints := master.EndpointKeys(r, rec.ID)
	return jsonstream.Object{Of: contivmodel.NetworkOper{
		PktTag: rec.PktTag, ExternalPktTag: rec.ExtPktTag, NetworkTag: rec.NetworkTag,
		NumEndpoints: len(endpoints), AllocatedAddressesCount: master.AddressCount(r, rec.ID),
		AllocatedIPAddresses: pool.Allocated(), AvailableIPAddresses: pool.Available(),
	}, Late: map[string]any{"endpoints": endpointsAt(r, endpoints)}}, nil
}

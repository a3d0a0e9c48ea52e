package objects

import (
	"cmp"
	"errors"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/utils/fault"
)

// Administrators of a tenant, but not of the cluster, have limits where objects of the tenant use shared
// resources: VLANs, VNIs and ports of hosts, and numbers of which each object of a kind uses one. The limits
// are fields of the tenant, which operators change.

const (
	// others is the limit of objects of each of the other types in a tenant: they cost less.
	others = 256
	// AppliedPerRule times the limit of rules of a tenant is its limit of applied rules: each rule counts once
	// for each group to which its policy is attached.
	AppliedPerRule = 10
)

// ErrNoEndpoint marks, for errors.Is, the error that a tenant has reached its limit of endpoints.
var ErrNoEndpoint = errors.New("no endpoint is left")

// quotas are the default limits of objects in a tenant, by type.
var quotas = map[string]struct {
	most  int
	field string // of the tenant
	of    func(*contivmodel.Tenant) int
}{
	"network":       {64, "maxNetworks", func(t *contivmodel.Tenant) int { return t.MaxNetworks }},
	"endpointGroup": {256, "maxGroups", func(t *contivmodel.Tenant) int { return t.MaxGroups }},
	"rule":          {2000, "maxRules", func(t *contivmodel.Tenant) int { return t.MaxRules }},
	"serviceLB":     {256, "maxServices", func(t *contivmodel.Tenant) int { return t.MaxServices }},
	// These have no field: an operator can create more.
	"policy":            {most: others},
	"netprofile":        {most: others},
	"appProfile":        {most: others},
	"extContractsGroup": {most: others},
	"volume":            {most: others},
	"volumeProfile":     {most: others},
}

// Quota returns how many objects of a type a tenant may have; limited is false if there is no limit.
func Quota(kind string, t *contivmodel.Tenant) (most int, limited bool) {
	q, limited := quotas[kind]
	if q.of != nil && q.of(t) > 0 {
		return q.of(t), true
	}
	return q.most, limited
}

// ofTenants reports whether the caller of the change may change objects of tenants only.
func (c *Change) ofTenants() (bool, error) {
	if c.By == nil {
		return false, nil
	}
	return c.By.OfTenants(c)
}

// Bounded refuses an object that its caller may not create, or not change to the wanted state.
func (c *Change) Bounded(wanted contivmodel.Object, isNew bool) error {
	kind := contivmodel.KindOf(wanted)
	if !kind.OfTenant() {
		return nil
	}
	bounded, err := c.ofTenants()
	if err != nil || !bounded {
		return err
	}
	tenant, err := tenantOf(c, tenantName(kind, wanted))
	if fault.Is(err, fault.MissingReference) {
		return nil // refused later, for this reason
	}
	if err != nil {
		return err
	}
	if isNew {
		if err := c.roomFor(kind, tenant); err != nil {
			return err
		}
	}
	switch o := wanted.(type) {
	case *contivmodel.Network:
		if isNew { // it cannot be changed otherwise
			return c.mayMakeNetwork(o, tenant)
		}
	case *contivmodel.ServiceLB:
		if len(o.ExternalIPs) > 0 || len(o.NodePorts) > 0 {
			return c.By.Deny("%s may not give service %s addresses or ports of hosts, which all tenants share: an operator may", c.By, o.ModelKey())
		}
	}
	return nil
}

// tenantName returns the tenant that an object names.
func tenantName(kind contivmodel.Kind, o contivmodel.Object) string {
	field, _ := kind.Field("tenantName")
	name, _ := field.Value(o).(string)
	return name
}

// mayMakeNetwork refuses a network that uses shared resources.
func (c *Change) mayMakeNetwork(n *contivmodel.Network, t *contivmodel.Tenant) error {
	given, field, what := t.Vxlans, "vxlans", "VNI"
	if n.Encap == "vlan" {
		given, field, what = t.Vlans, "vlans", "VLAN"
	}
	switch {
	case n.NwType == "infra":
		return c.By.Deny("%s may not make network %s of type infra, which has a port on every host: an operator may", c.By, n.ModelKey())
	case n.Encap == "vlan" && n.PktTag == 0:
		return c.By.Deny("%s may not make network %s of encapsulation vlan without a pktTag that tenant %s was given: its %s are %q", c.By, n.ModelKey(), t.TenantName, field, given)
	case n.PktTag != 0 && !resources.InTagList(given, n.PktTag):
		return c.By.Deny("%s may not take %s %d: the %s that tenant %s was given are %q", c.By, what, n.PktTag, field, t.TenantName, given)
	}
	routed, err := c.hostsRouteTo(n)
	if routed {
		err = c.By.Deny("%s may not make network %s with a gateway, as every host would get a route to it by the network %s of the tenant: an operator may",
			c.By, n.ModelKey(), mastercfg.AccessNetwork)
	}
	return err
}

// hostsRouteTo reports whether hosts get routes to a new network by the access network of its tenant. Its subnet may
// be one that they now reach by other routes, such as that of their name servers.
func (c *Change) hostsRouteTo(n *contivmodel.Network) (bool, error) {
	if n.Gateway == "" && n.Ipv6Gateway == "" {
		return false, nil
	}
	access, err := master.GetShared[contivmodel.Network](c, n.TenantName+":"+mastercfg.AccessNetwork, NotFound("network"))
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil || access.NwType != "infra" || access.Encap != n.Encap {
		return false, err
	}
	mode, err := readyMode(c, n.Encap)
	return mode == "routing", err
}

// mayRemoveNetwork refuses the removal of a network that other tenants use.
func (c *Change) mayRemoveNetwork(n *contivmodel.Network) error {
	if n.NwType != "infra" {
		return nil
	}
	bounded, err := c.ofTenants()
	if err != nil || !bounded {
		return err
	}
	return c.By.Deny("%s may not delete network %s of type infra, which has a port on every host: an operator may", c.By, n.ModelKey())
}

// roomFor refuses an object if its tenant has reached the limit of this kind.
func (c *Change) roomFor(kind contivmodel.Kind, t *contivmodel.Tenant) error {
	most, limited := Quota(kind.Type, t)
	if !limited {
		return nil
	}
	n := 0
	c.Range(mastercfg.ModelKey(kind.Type, t.TenantName+":"), func(string, []byte) bool {
		n++
		return n < most
	})
	if n < most {
		return nil
	}
	remedy := "an operator can make more"
	if field := quotas[kind.Type].field; field != "" {
		remedy = "an operator can change its " + field
	}
	return c.By.Exceed("tenant %s may have %d objects of type %s, and has them: %s", t.TenantName, most, kind.Type, remedy)
}

// RoomForEndpoint refuses an endpoint if the tenant of its network has reached its limit. netmaster does not
// know on whose behalf an agent requests an endpoint, so all requests of agents are limited; existing endpoints
// can be requested again. Tenant default has no limit unless an operator sets one, because it has all pods of a
// cluster without other tenants; infra networks, where hosts have endpoints, have none either.
//
// Plans run one after the other, each in the state that the previous ones leave, so concurrent requests cannot
// exceed the limit. Endpoints of operators, and those from before the limit was lowered, count and stay.
func (c *Change) RoomForEndpoint(req *mastercfg.CreateEndpointRequest) error {
	bounded, err := c.ofTenants()
	if err != nil || !bounded || master.HasEndpoint(c, req) {
		return err
	}
	tenant, err := tenantOf(c, req.TenantName)
	if fault.Is(err, fault.MissingReference) {
		return nil // refused later, for this reason
	}
	if err != nil {
		return err
	}
	most := cmp.Or(tenant.MaxEndpoints, mastercfg.EndpointsOfTenant)
	if tenant.MaxEndpoints == 0 && tenant.TenantName == mastercfg.DefaultTenant || master.HasRoom(c, tenant.TenantName, most) {
		return nil
	}
	network, err := master.Get[contivmodel.Network](c, req.TenantName+":"+req.NetworkName, nil)
	if err != nil || network == nil || network.NwType == "infra" {
		return err
	}
	return c.By.Exceed("%w: tenant %s may have %d, and has them: an operator can change its maxEndpoints", ErrNoEndpoint, tenant.TenantName, most)
}

// RoomForAddress refuses an address without an endpoint if agents have requested, in this network, as many of
// them as its tenant may have endpoints: nothing releases these, and they stay for two reconciliations. Here
// tenant default has the limit of the others.
func (c *Change) RoomForAddress(networkID, tenantName string) error {
	bounded, err := c.ofTenants()
	if err != nil || !bounded || networkID == "" {
		return err
	}
	tenant, err := tenantOf(c, tenantName)
	if err != nil {
		return err
	}
	most := cmp.Or(tenant.MaxEndpoints, mastercfg.EndpointsOfTenant)
	if master.HeldIn(c, networkID) < most {
		return nil
	}
	return c.By.Exceed("%d addresses of network %s are handed out without an endpoint, and so many at most: make endpoints with them, or release them", most, networkID)
}

// roomForRules refuses the present rules on groups, if there are more than the tenant may have.
func (c *Change) roomForRules(tenant string) error {
	bounded, err := c.ofTenants()
	if err != nil || !bounded {
		return err
	}
	t, err := tenantOf(c, tenant)
	if err != nil {
		return err
	}
	most, _ := Quota("rule", t)
	most *= AppliedPerRule
	rules, applied := map[string]int{}, 0 // by policy
	under := mastercfg.ModelKey("rule", "")
	c.Range(under+tenant+":", func(key string, _ []byte) bool {
		rules[key[len(under):strings.LastIndexByte(key, ':')]]++
		return true
	})
	// By the index: a range of bindings would be read by every member of the store, for each request.
	for policy, n := range rules {
		applied += n * master.Bindings(c, policy)
	}
	if applied <= most {
		return nil
	}
	return c.By.Exceed("tenant %s may have %d rules applied to groups, each counted for each group of its policy, and would have more: an operator can change its maxRules", tenant, most)
}

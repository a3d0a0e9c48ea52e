package master

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"github.com/contiv/netplugin/contivmodel/limits"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// CreateEndpoint makes the endpoint of a container in a network: addresses of both families, a MAC, the id of its
// group. It is idempotent by container: the record of an existing endpoint is returned unchanged, whatever else
// differs.
//
// A pod gets an address whose cooldown is over. The caller reports the outcome by Given.
func (c *Cooldown) CreateEndpoint(tx *ledger.Tx, req *mastercfg.CreateEndpointRequest) (mastercfg.CfgEndpointState, error) {
	var none mastercfg.CfgEndpointState
	req, err := inDefaultGroup(tx, req)
	if err != nil {
		return none, err
	}
	ep := mastercfg.CfgEndpointState{
		ID: idOf(req), NetID: mastercfg.NetworkID(req.TenantName, req.NetworkName), EndpointID: req.ConfigEP.Container,
		ServiceName: req.ConfigEP.ServiceName, HomingHost: req.ConfigEP.Host, EPCommonName: req.EPCommonName,
		PodNamespace: req.PodNamespace, PodUID: req.PodUID, Boot: req.Boot,
	}
	if err := nameable(&ep); err != nil {
		return none, err
	}
	known, err := ledger.Read[mastercfg.CfgEndpointState](tx, mastercfg.EndpointPrefix+ep.ID)
	if err == nil && known.NetID != ep.NetID {
		// Names may contain the separators of ids, and a host has one endpoint without a container.
		return none, fault.New(fault.Conflict, "endpoint id %s is taken by an endpoint of another network", ep.ID)
	}
	if !fault.Is(err, fault.NotFound) {
		return known, err
	}
	s, err := openFor(tx, req)
	if err != nil {
		return none, err
	}
	if ep.PodUID != "" {
		s.cooldown = c
	}
	if err := s.address(&ep, &req.ConfigEP); err != nil {
		return none, err
	}
	if s.group != nil {
		ep.EndpointGroupKey, ep.EndpointGroupID = s.group.ID, s.group.EndpointGroupID
	}
	if len(req.Labels) == 0 {
		return ep, putEndpoint(tx, &ep)
	}
	created := ep
	ep.Labels, ep.ContainerID = req.Labels, req.ConfigEP.Container
	return ep, cmp.Or(putEndpoint(tx, &ep), moveProvider(tx, &created, &ep))
}

// address assigns an endpoint an address of each family that its network has or that is requested.
func (s *space) address(ep *mastercfg.CfgEndpointState, want *mastercfg.ConfigEP) error {
	var before4, before6 netip.Addr
	if s.cooldown != nil {
		before4, before6 = s.cooldown.formerAddresses(ep)
	}
	if want.IPAddress != "" || !resources.OnlyIPv6(&s.net) {
		addr, err := s.takeRequestedOrFormer(s.takeIPv4, want.IPAddress, before4)
		if err != nil {
			return err
		}
		ep.IPAddress, ep.MacAddress = addr.String(), macOf(addr)
	}
	if want.IPv6Address != "" || s.net.IPv6SubnetLen != 0 {
		addr, err := s.takeRequestedOrFormer(s.takeIPv6, want.IPv6Address, before6)
		if err != nil {
			return err
		}
		ep.IPv6Address = addr.String()
		if ep.IPAddress == "" {
			ep.MacAddress = macOf(addr)
		}
	}
	return nil
}

// takeRequestedOrFormer takes the requested address, or the one that the same pod had before if it is free, or any.
// A held address was assigned to another client meanwhile, and an address that a pod requests is reserved for that
// pod.
func (s *space) takeRequestedOrFormer(take func(requested string) (netip.Addr, error), requested string, before netip.Addr) (netip.Addr, error) {
	if requested == "" && before.IsValid() && !s.held(before) && len(PodsThatAsk(s.r, s.net.ID, before)) == 0 {
		if addr, err := take(before.String()); err == nil {
			return addr, nil
		}
	}
	return take(requested)
}

// inDefaultGroup puts an endpoint without a group into the default group of a fabric.
func inDefaultGroup(r ledger.Reader, req *mastercfg.CreateEndpointRequest) (*mastercfg.CreateEndpointRequest, error) {
	if req.ConfigEP.ServiceName != "" {
		return req, nil
	}
	inFabric, err := InFabric(r)
	if !inFabric || err != nil {
		return req, err
	}
	grouped := *req
	grouped.ConfigEP.ServiceName = defaultGroup
	return &grouped, nil
}

// idOf returns the id of the requested endpoint.
func idOf(req *mastercfg.CreateEndpointRequest) string {
	if req.ConfigEP.Container == "" {
		return mastercfg.NativeEndpointID(req.ConfigEP.Host)
	}
	return mastercfg.EndpointID(mastercfg.NetworkID(req.TenantName, req.NetworkName), req.ConfigEP.Container)
}

// HasEndpoint reports whether the endpoint that a request would create exists already.
func HasEndpoint(r ledger.Reader, req *mastercfg.CreateEndpointRequest) bool {
	_, has := r.Get(mastercfg.EndpointPrefix + idOf(req))
	return has
}

// endpointsOfTenant counts the endpoints in a tenant's networks except infra networks, where hosts have theirs.
func endpointsOfTenant(r ledger.Reader, tenant string) (n int) {
	found(r, tenantTerm+tenant, func(key string) bool {
		n += r.Count(inTerm + strings.TrimPrefix(key, mastercfg.NetworkPrefix))
		return true
	})
	return n
}

// HasRoom reports whether a tenant has fewer endpoints than a bound, apart from infra networks. Mostly one look-up
// is enough.
func HasRoom(r ledger.Reader, tenant string, endpoints int) bool {
	return r.Count(endsTerm+tenant) < endpoints || endpointsOfTenant(r, tenant) < endpoints
}

// nameable returns an error for an endpoint whose id would contain characters that keys cannot have.
func nameable(ep *mastercfg.CfgEndpointState) error {
	name := ep.EndpointID
	if name == "" {
		name = ep.HomingHost
	}
	if name == "" || strings.Contains(name, "/") {
		return fault.New(fault.Invalid, "endpoint %.64q: want a container or host name without a slash", name).WithField("ConfigEP.Container")
	}
	return limits.Text("ConfigEP.Container", ep.ID, limits.EndpointID)
}

// openFor opens the address space of a new endpoint.
func openFor(tx *ledger.Tx, req *mastercfg.CreateEndpointRequest) (*space, error) {
	networkID := mastercfg.NetworkID(req.TenantName, req.NetworkName)
	groupID := ""
	if req.ConfigEP.ServiceName != "" {
		groupID = mastercfg.EndpointGroupID(req.TenantName, req.ConfigEP.ServiceName)
	}
	s, err := openSpace(tx, networkID, groupID)
	// Names may contain dots: a network of another tenant can have this id.
	foreign := err == nil && s.net.Tenant != req.TenantName
	if foreign || fault.Is(err, fault.NotFound) {
		missing := "group " + req.ConfigEP.ServiceName
		if net, err := GetNetwork(tx, networkID); err != nil || net.Tenant != req.TenantName {
			missing = "network " + req.NetworkName
		}
		return nil, fault.New(fault.MissingReference, "endpoint %s: key not found: %s of tenant %s", req.ConfigEP.Container, missing, req.TenantName)
	}
	if err != nil {
		return nil, err
	}
	if s.group != nil && s.group.NetworkName != req.NetworkName {
		return nil, fault.New(fault.Invalid, "endpoint group %s belongs to network %s, not to %s",
			s.group.ID, s.group.NetworkName, req.NetworkName)
	}
	return s, nil
}

// DeleteEndpoint deletes an endpoint and returns its former record. It works when the network or group is already gone.
func DeleteEndpoint(tx *ledger.Tx, id string) (mastercfg.CfgEndpointState, error) {
	ep, err := ledger.Read[mastercfg.CfgEndpointState](tx, mastercfg.EndpointPrefix+id)
	if err != nil {
		return ep, byName("endpoint", id, err)
	}
	tx.Delete(mastercfg.EndpointPrefix + id)
	return ep, moveProvider(tx, &ep, nil)
}

// macOf returns the MAC address of an endpoint's interface: 02:02 and the four octets of its IPv4 address, or the
// last four of its IPv6 address if it has no IPv4.
func macOf(addr netip.Addr) string {
	b := addr.As16()
	return fmt.Sprintf("02:02:%02x:%02x:%02x:%02x", b[12], b[13], b[14], b[15])
}

func putEndpoint(tx *ledger.Tx, ep *mastercfg.CfgEndpointState) error {
	return ledger.Write(tx, mastercfg.EndpointPrefix+ep.ID, ep)
}

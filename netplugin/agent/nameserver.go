package agent

import (
	"net/netip"
	"strings"

	"github.com/contiv/netplugin/netplugin/nameserver"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// The name server knows the endpoints of the tenants that have endpoints on this node. Names are updated
// together with the wanted objects; an object that is pending, for example because the VTEP of its node is
// unknown, has its names already.

// notePartialNames sets in the name server whether the backlog has more names. It is called before a step, which may
// add the first names of a tenant, and after it.
func (p *planner) notePartialNames(c *cache) {
	if p.names != nil {
		p.names.SetPartial(len(c.tenants.backlog) > 0)
	}
}

// name adds the names of an object, or removes them. problem is why the object is not wanted, or is pending.
func (p *planner) name(c *cache, key pipeline.Key, problem error) {
	if p.names == nil {
		return
	}
	wanted := problem == nil || fault.Is(problem, fault.MissingReference)
	switch key.Kind {
	case pipeline.KindNetwork:
		if n, known := c.networks[key.ID]; known && wanted {
			p.names.SetNetwork(nameserver.Network{ID: key.ID, Tenant: n.record.Tenant, Subnets: [2]netip.Prefix{n.part.Subnet, n.part.Subnet6},
				Shared: n.part.Encap == pipeline.VLAN && c.mode.Bridged()})
		} else {
			p.names.RemoveNetwork(key.ID)
		}
	case pipeline.KindEndpoint:
		e, known := c.endpoints[key.ID]
		if n, placed := c.networks[e.netID]; known && placed && wanted {
			p.names.SetEndpoint(nameserver.Endpoint{ID: key.ID, Tenant: n.record.Tenant, Group: e.group, Container: e.container,
				Runtime: strings.TrimPrefix(key.ID, e.netID+"-"), IPv4: e.part.IPv4, IPv6: e.part.IPv6})
		} else {
			p.names.RemoveEndpoint(key.ID)
		}
	case pipeline.KindService:
		s, known := c.services.byID[key.ID]
		if n, placed := c.networks[s.netID]; known && placed && wanted {
			_, serving := c.providersOf(key.ID, n.part)
			p.names.SetService(nameserver.Service{
				ID: key.ID, Tenant: n.record.Tenant, Name: s.name, Address: s.vips[0], IPv6: s.vips[1],
				Ports: namedPorts(s.own), Providers: serving,
			})
		} else {
			p.names.RemoveService(key.ID)
		}
	}
}

// askedBy returns the addresses of the name server for an endpoint of this node.
func (a *Agent) askedBy(o pipeline.Object) (servers []netip.Addr) {
	e, ok := o.(pipeline.Endpoint)
	if !ok || a.cfg.Names == nil {
		return nil
	}
	n := a.cache.networks[e.Network].part
	n.Mode = e.Mode
	for _, server := range n.NameServers() {
		if own := map[bool]netip.Addr{true: e.IPv4, false: e.IPv6}[server.Is4()]; own.IsValid() {
			servers = append(servers, server)
		}
	}
	return servers
}

func namedPorts(ports []pipeline.ServicePort) []nameserver.Port {
	list := make([]nameserver.Port, len(ports))
	for i, p := range ports {
		list[i] = nameserver.Port{Protocol: inet.TransportName(p.Protocol), Number: p.Port, Target: p.Target}
	}
	return list
}

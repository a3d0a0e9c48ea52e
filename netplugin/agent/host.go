package agent

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// infraNetwork is the type of networks in which each host has its own endpoint.
const infraNetwork = "infra"

// HostAccess is the wanted configuration of the host itself.
type HostAccess struct {
	Networks []HostNetwork                // infra networks, by id
	Released []mastercfg.CfgEndpointState // the host's endpoints in deleted networks
	Outside  *pipeline.Outside            // the port by which endpoints reach the outside; nil: none
	IPv6     bool                         // some network is routed for IPv6
	Entrances
	Balancers bool // a service has load balancer addresses, which may be on an interface of this host

	Primary     []netip.Addr     // the first address of each IP family that this node has in Kubernetes; empty: unknown to it
	Nodes       []netip.Addr     // addresses of all machines of the cluster, including this one
	Reached     []netip.Addr     // the control addresses of agents and netmasters among them
	VTEPs       []netip.Addr     // tunnel addresses from which the switch accepts packets
	AllVTEPs    bool             // VTEPs is complete: those of nodes whose agents are down have been read from their records
	MasterPorts []uint16         // ports of netmasters
	AgentPorts  []netip.AddrPort // REST servers of agents that do not have the default port
	HealthPorts []uint16         // health check ports of services on this host
}

// HostNetwork is an infra network as this host sees it.
type HostNetwork struct {
	Network  mastercfg.CfgNetworkState
	Endpoint *mastercfg.CfgEndpointState // the host's own; nil: not in the store yet
	Reached  []netip.Prefix              // subnets of the tenant that the host reaches through the network's gateway
}

// EndpointID returns the id of the host's endpoint.
func (n HostNetwork) EndpointID(host string) string {
	return mastercfg.EndpointID(n.Network.ID, host)
}

// HostAccess returns the wanted configuration of the host. It fails as long as the first state has not been read.
func (a *Agent) HostAccess() (HostAccess, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.missing(); err != nil {
		return HostAccess{}, err
	}
	access := a.cache.hostAccess()
	access.AllVTEPs = a.started
	return access, nil
}

// HostChanged wakes its only reader when the result of HostAccess may have changed.
func (a *Agent) HostChanged() <-chan struct{} { return a.host }

func (c *cache) hostAccess() HostAccess {
	access := HostAccess{
		Primary: c.kube.primary(c.host), Nodes: c.nodes.list(), Reached: c.nodes.reachedAt(), VTEPs: c.nodes.ends(),
		MasterPorts: c.nodes.ports(), AgentPorts: c.nodes.agentPorts(), HealthPorts: c.healthPorts(),
		Entrances: c.entrances(), Balancers: len(c.standIns.balanced) > 0,
	}
	for id, n := range c.networks {
		access.IPv6 = access.IPv6 || n.part.Gateway6.IsValid()
		if n.record.NwType != infraNetwork || n.problem != "" {
			continue
		}
		h := HostNetwork{Network: n.record, Reached: c.reachedFrom(n.part)}
		if e, known := c.endpoints[h.EndpointID(c.host)]; known && e.host == c.host && e.netID == id {
			h.Endpoint = e.record
		}
		access.Networks = append(access.Networks, h)
	}
	slices.SortFunc(access.Networks, func(a, b HostNetwork) int { return strings.Compare(a.Network.ID, b.Network.ID) })
	if o, err := c.hostPort(); err == nil {
		access.Outside = &o
	}
	for id := range c.endpointsOn[c.host] {
		e := c.endpoints[id]
		if _, known := c.networks[e.netID]; !known && id == mastercfg.EndpointID(e.netID, c.host) {
			access.Released = append(access.Released, *e.record)
		}
	}
	return access
}

// reachedFrom lists the subnets that a host in a network reaches through its gateway. In other infra networks
// it has an interface of its own.
func (c *cache) reachedFrom(from pipeline.Network) (subnets []netip.Prefix) {
	if c.mode.Bridged() {
		return nil
	}
	for id := range c.networksOf[from.Tenant] {
		n := c.networks[id].part
		if id == from.ID || n.Encap != from.Encap || c.networks[id].record.NwType == infraNetwork {
			continue
		}
		for _, way := range []struct {
			own, gateway netip.Addr
			subnet       netip.Prefix
		}{{from.Gateway, n.Gateway, n.Subnet}, {from.Gateway6, n.Gateway6, n.Subnet6}} {
			if way.own.IsValid() && way.gateway.IsValid() && way.subnet.IsValid() {
				subnets = append(subnets, way.subnet)
			}
		}
	}
	if from.Tenant == mastercfg.DefaultTenant {
		subnets = append(subnets, c.kube.servedRanges(from)...) // its services are those that hosts reach
	}
	slices.SortFunc(subnets, netip.Prefix.Compare)
	return subnets
}

// ServeHost waits until an endpoint of the host itself forwards; its port must exist. Unlike a container's
// endpoint, it is not held when the store loses it: netmaster can create it again at any time.
func (a *Agent) ServeHost(ctx context.Context, epID string, revision int64) (Attachment, error) {
	at, err := a.Await(ctx, epID, revision)
	if err != nil {
		return Attachment{}, err
	}
	a.programDirty()
	if err := a.awaitFlows(ctx, epID, at.Network); err != nil {
		return Attachment{}, err
	}
	a.report.Send() // the port may be newer than the record
	return at, nil
}

package agent

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// infraNetwork is the kind of network in which each host has an endpoint of its own.
const infraNetwork = "infra"

// HostAccess is what the store wants the host itself to have.
type HostAccess struct {
	Networks []HostNetwork                // infra networks, by id
	Released []mastercfg.CfgEndpointState // the host's endpoints in networks that are gone
	Outside  *pipeline.Outside            // the port by which endpoints leave; nil: there is none
	IPv6     bool                         // some network is routed for IPv6
	Entrances
	Balancers bool // there are addresses of load balancers, which may be on an interface of this host

	Primary     []netip.Addr // by which Kubernetes knows this host, of each version of IP at most one; none: it does not know it
	Nodes       []netip.Addr // of the cluster's machines, this one included
	Reached     []netip.Addr // those of them at which agents and netmasters are reached
	VTEPs       []netip.Addr // ends of tunnels that the switch believes
	AllVTEPs    bool         // they are complete: those of nodes whose agents are away have been recalled
	MasterPorts []uint16     // at which netmasters listen
	HealthPorts []uint16     // at which this host is asked about services
}

// HostNetwork is an infra network as this host sees it.
type HostNetwork struct {
	Network  mastercfg.CfgNetworkState
	Endpoint *mastercfg.CfgEndpointState // the host's own; nil: the store does not have it yet
	Reached  []netip.Prefix              // subnets of the tenant that are reached through the network's gateway
}

// EndpointID is the id of the host's endpoint.
func (n HostNetwork) EndpointID(host string) string {
	return mastercfg.EndpointID(n.Network.ID, host)
}

// HostAccess says what the host is to have; the error is that nobody knows yet.
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

// HostChanged wakes its one reader when HostAccess may say something else.
func (a *Agent) HostChanged() <-chan struct{} { return a.host }

func (c *cache) hostAccess() HostAccess {
	access := HostAccess{Primary: c.kube.primary(c.host), Nodes: c.nodes.list(), Reached: c.nodes.reachedAt(), VTEPs: c.nodes.ends(), MasterPorts: c.nodes.ports(), HealthPorts: c.healthPorts(), Entrances: c.entrances(), Balancers: len(c.stand.balanced) > 0}
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

// reachedFrom lists the subnets that a host of a network reaches through its gateway. Into other infra networks it has
// an interface of its own.
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

// ServeHost waits until an endpoint of the host itself forwards; its port must be
// there. Unlike a container's, it is not held when the store loses it: it can be
// asked for again at any time.
func (a *Agent) ServeHost(ctx context.Context, epID string, revision int64) (Attachment, error) {
	at, err := a.Await(ctx, epID, revision)
	if err != nil {
		return Attachment{}, err
	}
	a.programDirty()
	if err := a.awaitFlows(ctx, epID, at.Network); err != nil {
		return Attachment{}, err
	}
	a.report.Send() // its port may have come after its record
	return at, nil
}

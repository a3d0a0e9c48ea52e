package agent

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Services that hosts reach, and clients outside that enter the cluster at a host: each node serves them, with
// or without endpoints of their tenant.

// Entrances are the destinations that the host routes to its port of the switch.
type Entrances struct {
	Addresses []netip.Addr // external addresses of services, without addresses of nodes, ascending
	Cluster   []netip.Addr // cluster addresses, for the host itself only, ascending
	NodePorts []NodePort   // ascending
	Balanced  []Balanced   // ports at addresses of load balancers that this host has, ascending
	StandIns  pipeline.StandIns
}

// NodePort is a port of a service at every node.
type NodePort struct {
	Protocol uint8
	Port     uint16
}

// served returns the ports of a service at all of its addresses. Node ports have the unspecified address of
// their IP family.
func (s service) served(r mastercfg.CfgServiceLBState) (all []pipeline.ServicePort, err error) {
	node, err := parsePorts(r.NodePorts)
	if err != nil {
		return nil, err
	}
	for i, n := range node {
		at := slices.IndexFunc(s.own, func(p pipeline.ServicePort) bool { return p.Protocol == n.Protocol && p.Port == n.Target })
		if at < 0 {
			return nil, fmt.Errorf("node port %q is for a port that the service does not have", r.NodePorts[i])
		}
		node[i].Target = s.own[at].Target
	}
	at := func(a netip.Addr, from pipeline.Clients, ports []pipeline.ServicePort) {
		for _, p := range ports {
			p.Address, p.From, p.Shared = a, from, a.IsUnspecified()
			all = append(all, p)
		}
	}
	for i, anywhere := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if s.vips[i].IsValid() {
			at(s.vips[i], pipeline.FromPods, s.own)
			at(anywhere, pipeline.FromHost, node)
			at(s.vips[i], pipeline.FromOutside, s.own)
		}
	}
	for _, text := range r.ExternalIPs {
		external, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("external address: %w", err)
		}
		at(external, pipeline.FromPods|pipeline.FromHost, s.own)
	}
	return all, nil
}

// portsFromHost returns the ports of a service that clients reach through this node's port to the host. If the
// node has no such port, and for networks other than routed vxlan ones, these are the ports that endpoints
// reach. For the uplink see announced.go.
func (c *cache) portsFromHost(ports []pipeline.ServicePort, encap pipeline.Encap) (all []pipeline.ServicePort) {
	host, err := c.hostPort()
	led := err == nil && !c.mode.Bridged() && encap == pipeline.VXLAN
	for _, p := range ports {
		switch {
		case led && p.From == pipeline.FromHost && p.Address.Is4():
			p = c.atNodePort(host.Prefix, p)
		case led && p.From == pipeline.FromHost:
			p = c.atNodePort(host.Prefix6, p)
		case p.From == pipeline.FromHost || p.From == pipeline.FromOutside:
			continue
		case !led:
			p.From = pipeline.FromPods
		}
		all = append(all, p)
	}
	return all
}

// entrances returns those of all services that hosts reach.
func (c *cache) entrances() (e Entrances) {
	if c.mode.Bridged() {
		return e
	}
	e = c.kubeEntrances()
	for _, s := range c.services.byID {
		for _, p := range s.part.Ports {
			switch {
			case p.From == pipeline.FromHost:
				e.NodePorts = append(e.NodePorts, NodePort{p.Protocol, p.Port})
			case p.From&pipeline.FromHost != 0:
				e.Addresses = append(e.Addresses, p.Address)
			}
		}
	}
	nodes := slices.Concat(c.nodes.list(), c.standIns.here) // routing them to the switch would cut the host off from these machines
	for _, some := range []*[]netip.Addr{&e.Addresses, &e.Cluster} {
		slices.SortFunc(*some, netip.Addr.Compare)
		*some = slices.DeleteFunc(slices.Compact(*some), func(a netip.Addr) bool { return slices.Contains(nodes, a) || !pipeline.OfOneHost(a) })
	}
	slices.SortFunc(e.NodePorts, func(a, b NodePort) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	e.NodePorts = slices.Compact(e.NodePorts)
	slices.SortFunc(e.Balanced, func(a, b Balanced) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port))
	})
	e.Balanced, e.StandIns = slices.Compact(e.Balanced), c.standIns.known
	return e
}

// isEntered reports whether hosts reach a service.
func (s service) isEntered() bool {
	return slices.ContainsFunc(s.part.Ports, func(p pipeline.ServicePort) bool { return p.From&pipeline.FromHost != 0 })
}

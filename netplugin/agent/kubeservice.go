package agent

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/kubeservice"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// wantedKubeService computes a service with its backends for clients of this node.
func (c *cache) wantedKubeService(id string) (pipeline.Object, error) {
	s, known := c.kube.services[id]
	if !known {
		return nil, fault.New(fault.NotFound, "service %s is not known", id)
	}
	n, err := c.networkForServices(s.tenant)
	if err != nil {
		return nil, fault.New(fault.KindOf(err), "service %s: %w", id, err)
	}
	o := pipeline.Service{ID: kubeID + id, VRF: n.VRF, Tag: n.Tag, Affinity: uint16(min(s.record.Affinity, pipeline.MaxAffinity))}
	o.Inner, o.Overheard = c.insideSources(), c.wantsAnswersOf(id)
	here := kubeservice.Place{Node: c.host, Zone: c.kube.nodes[c.host].Zone}
	type who struct {
		name      string
		udp, ipv4 bool
	}
	sets, most := make(map[who]kubeservice.Sets), pipeline.ProvidersOf(s.record.Places()+c.standing(s))
	sources := map[bool][]netip.Prefix{true: c.sources(s.record.SourceRanges, true), false: c.sources(s.record.SourceRanges, false)}
	for _, p := range s.ports {
		port, ok := c.placedPort(p)
		if !ok {
			continue
		}
		key := who{p.name, p.Protocol == openflow.ProtoUDP, port.Address.Is4()}
		if _, chosen := sets[key]; !chosen {
			var all []kubeservice.Backend
			for at, b := range c.kube.backends[id][p.name] {
				if at.Addr().Is4() == key.ipv4 {
					all = append(all, b)
				}
			}
			sets[key] = kubeservice.Choose(all, here, key.udp).AtMost(most, c.host, func(a netip.AddrPort) bool {
				return c.kube.backends[id][p.name][a].Node == c.host
			})
		}
		chosen := sets[key].Cluster
		if p.local {
			chosen = sets[key].Local
		}
		port.Serving, port.Draining, port.Silent = chosen.Serving, chosen.Draining, chosen.Silent
		port.Mixed = c.sharesUDPAddress(s.tenant, p.ServicePort)
		if p.limited {
			port.Sources = sources[port.Address.Is4()]
		}
		o.Ports = append(o.Ports, port)
	}
	return o, nil
}

// networkForServices returns a network of the tenant through whose gateway pods reach services.
func (c *cache) networkForServices(tenant string) (n pipeline.Network, err error) {
	ids := []string{mastercfg.NetworkID(tenant, mastercfg.DefaultNetwork)}
	for id := range c.networksOf[tenant] {
		ids = append(ids, id)
	}
	slices.Sort(ids[1:])
	for _, id := range ids {
		n, err := c.servedNetwork(id)
		if err == nil && !n.Mode.Bridged() && n.Encap == pipeline.VXLAN {
			return n, nil
		}
		if fault.Is(err, fault.NotFound) {
			return n, err // the tenant has no endpoint here
		}
	}
	if c.mode.Bridged() {
		return n, fault.New(fault.MissingReference, "services of Kubernetes are not served in forwarding mode bridge")
	}
	return n, fault.New(fault.MissingReference, "tenant %s has no routed network of encapsulation vxlan", tenant)
}

// placedPort returns a port with its address on this node; reached is false if clients do not reach it here.
func (c *cache) placedPort(of kubePort) (p pipeline.ServicePort, reached bool) {
	host, err := c.hostPort()
	p = of.ServicePort
	private := host.Prefix
	if p.Address.Is6() {
		private = host.Prefix6
	}
	switch {
	case c.isPortOfNode(of):
		return p, false
	case of.balancer:
		if p.Address, reached = c.standIns.known.Balancer(private, p.Address); err != nil || !reached {
			return p, false
		}
	case err != nil:
		p.From &= pipeline.FromPods
	case p.Address.IsUnspecified():
		p = c.atNodePort(private, p)
	}
	return p, p.From != 0 && !p.Address.IsUnspecified()
}

// standing returns how many additional ports a service has on this node
// at addresses of load balancers that are on the host's interfaces.
func (c *cache) standing(s kubeService) (n int) {
	for _, p := range s.ports {
		if _, reached := c.placedPort(p); p.balancer && reached && p.From&pipeline.FromHost != 0 {
			n++
		}
	}
	return n
}

// sources returns the clients that a service accepts at addresses of load balancers; nil: all. If a range contains
// an address of this node, the node's address at the switch is added.
func (c *cache) sources(ranges []netip.Prefix, ipv4 bool) (all []netip.Prefix) {
	if !limitClients(ranges, ipv4) {
		return nil
	}
	all = slices.Clone(ranges) // ranges of the other IP family match no client of this one
	host, err := c.hostPort()
	for _, a := range c.kube.nodes[c.host].Addresses {
		if err == nil && slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) }) {
			for _, p := range host.Prefixes() {
				if own := pipeline.OutsideAddress(p, pipeline.OutsideHost); own.Is4() == a.Is4() {
					all = append(all, inet.Host(own))
				}
			}
		}
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all)
}

// limitClients reports whether ranges limit the clients of an IP family. A range of all addresses is no limit, also
// for the other family if that has no range of its own.
func limitClients(ranges []netip.Prefix, ipv4 bool) bool {
	var hasOwn, ownAll, otherAll bool
	for _, r := range ranges {
		isOwn, isAll := r.Addr().Is4() == ipv4, r.Bits() == 0
		hasOwn = hasOwn || isOwn
		ownAll = ownAll || isOwn && isAll
		otherAll = otherAll || !isOwn && isAll
	}
	return !ownAll && (hasOwn || !otherAll)
}

// insideSources returns the source addresses of packets from the host that count as inside the cluster: the
// node's own, and the private addresses of its pods.
func (c *cache) insideSources() (all []netip.Prefix) {
	if host, err := c.hostPort(); err == nil {
		all = host.Prefixes()
	}
	for _, a := range c.kube.nodes[c.host].Addresses {
		all = append(all, inet.Host(a))
	}
	return all
}

// kubeEntrances returns the destinations of Kubernetes services that the host routes to the switch.
func (c *cache) kubeEntrances() (e Entrances) {
	standing := c.standIns.known.Balancers()
	for id, s := range c.kube.services {
		for _, p := range s.ports {
			switch {
			case p.From&pipeline.FromHost == 0 || c.isPortOfNode(p):
			case p.balancer:
				if slices.Contains(standing, p.Address) && !c.isOwnBackend(id, p) {
					e.Balanced = append(e.Balanced, Balanced{p.Address, NodePort{p.Protocol, p.Port}})
				}
			case p.Address.IsUnspecified():
				e.NodePorts = append(e.NodePorts, NodePort{p.Protocol, p.Port})
			case p.cluster:
				e.Cluster = append(e.Cluster, p.Address)
			default:
				e.Addresses = append(e.Addresses, p.Address)
			}
		}
	}
	return e
}

// servedRanges returns the service CIDRs for whose IP family the network has a gateway.
func (k kube) servedRanges(from pipeline.Network) (some []netip.Prefix) {
	for _, r := range k.ranges {
		if gateway := from.Gateway6; r.Addr().Is6() && gateway.IsValid() || r.Addr().Is4() && from.Gateway.IsValid() {
			some = append(some, r)
		}
	}
	return some
}

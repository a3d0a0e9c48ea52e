package agent

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// A load balancer without addresses of its own gives addresses of nodes to services. At these, a service has
// its own ports only, without those that the node uses at all its addresses: ports that each node needs itself,
// node ports, and health check ports of load balancers.

// isPortOfNode reports whether a service's port at an address of a node belongs to the node itself.
func (c *cache) isPortOfNode(p kubePort) bool {
	key := nodePortKey(p.Protocol, p.Port)
	return p.ofNode && (c.needed != nil && c.needed(p.Protocol, p.Port) || len(c.services.nodePorts[key])+len(c.kube.healthPortsAt[key]) > 0)
}

// placeAtNodes adds the ports of a service at addresses of nodes to the index, or removes them.
func (c *cache) placeAtNodes(id string, ports []kubePort, change func(x index, port, service string)) {
	for _, p := range ports {
		if p.ofNode {
			change(c.kube.atNodes, nodePortKey(p.Protocol, p.Port), kubeID+id)
		}
	}
}

// indexHealthPort applies change, which adds or removes, to the index of health check ports of load balancers.
func (c *cache) indexHealthPort(id string, port uint16, change func(x index, port, service string)) {
	key := nodePortKey(openflow.ProtoTCP, port)
	change(c.kube.healthPortsAt, key, kubeID+id)
	c.markAtNodes(key)
}

// markAtNodes marks the services with this port at addresses of nodes: the node may have begun or ceased to use
// it.
func (c *cache) markAtNodes(key string) {
	for service := range c.kube.atNodes[key] {
		c.mark(pipeline.KindService, service)
		c.hostChanges()
	}
}

// isOwnBackend reports whether the address and port of a service are also those of one of its backends, such as a
// pod with hostNetwork. The host does not send packets to it through the switch, which would send them back.
func (c *cache) isOwnBackend(id string, p kubePort) bool {
	return c.servesAt(id, p.name, netip.AddrPortFrom(p.Address, p.Port))
}

func (c *cache) servesAt(id, port string, at netip.AddrPort) bool {
	return c.kube.backends[id][port][at].Serving
}

// noteOwnBackend marks the host part as changed if a backend at an address of its own service begins or ceases to serve.
func (c *cache) noteOwnBackend(id, port string, at netip.AddrPort, before bool) {
	if c.servesAt(id, port, at) != before && slices.ContainsFunc(c.kube.services[id].ports, func(p kubePort) bool { return p.balancer && p.Address == at.Addr() && p.Port == at.Port() }) {
		c.hostChanges()
	}
}

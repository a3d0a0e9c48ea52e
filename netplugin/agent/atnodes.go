package agent

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// A load balancer without addresses of its own gives services those of nodes. There a service has its ports and nothing else, and of
// these not what nodes have at all their addresses: what every node needs itself, node ports, and those at which load balancers ask.

// isPortOfNode tells whether a service's port at the address of a node is left to the node.
func (c *cache) isPortOfNode(p kubePort) bool {
	key := nodePortKey(p.Protocol, p.Port)
	return p.ofNode && (c.needed != nil && c.needed(p.Protocol, p.Port) || len(c.nodePorts[key])+len(c.kube.askedAt[key]) > 0)
}

// placeAtNodes enters the ports of a service at addresses of nodes in the index, or removes them.
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
	change(c.kube.askedAt, key, kubeID+id)
	c.markAtNodes(key)
}

// markAtNodes has the services looked at that have a port at addresses of nodes, which may have become the nodes', or be so no more.
func (c *cache) markAtNodes(key string) {
	for service := range c.kube.atNodes[key] {
		c.mark(pipeline.KindService, service)
		c.hostChanges()
	}
}

// isOwnBackend tells whether an address and port is a backend of the service at that address and port, such as of a pod with
// hostNetwork. Packets of the host to it are not sent to the switch, which would send them back.
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

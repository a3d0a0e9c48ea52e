package agent

import (
	"fmt"
	"strings"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// A node port belongs to one service of the whole cluster, and all node ports share the address of the node. So
// the tenant of an ICMP error about an answer follows only from the port number that it quotes.

func nodePortKey(protocol uint8, port uint16) string { return fmt.Sprint(protocol, " ", port) }

// placeNodePort adds a port of a service to the index, if it is a node port, or removes it.
func (c *cache) placeNodePort(tenant string, p pipeline.ServicePort, service string, change func(x index, place, service string)) {
	if p.Shared {
		key := nodePortKey(p.Protocol, p.Port)
		change(c.services.nodePorts, key, tenant+" "+service)
		c.markAtNodes(key)
	}
}

// NodePortVRF returns the VRF of the tenant whose service has a node
// port; 0: no service has it, or nothing of the tenant is known here.
func (a *Agent) NodePortVRF(protocol uint8, port uint16) uint16 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for owner := range a.cache.services.nodePorts[nodePortKey(protocol, port)] {
		tenant, _, _ := strings.Cut(owner, " ")
		return a.cache.vrfs[tenant]
	}
	return 0
}

// nodePortsVRF returns the VRF of the only tenant with node ports; 0: none has, or more than one.
func (c *cache) nodePortsVRF() uint16 {
	only := ""
	for _, owners := range c.services.nodePorts {
		for owner := range owners {
			tenant, _, _ := strings.Cut(owner, " ")
			if only != "" && tenant != only {
				return 0
			}
			only = tenant
		}
	}
	return c.vrfs[only]
}

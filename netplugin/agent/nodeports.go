package agent

import (
	"fmt"
	"strings"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// A node port is of one service in the whole cluster, and all of them are at one address of the node. So an ICMP error
// about an answer tells whose it is by the number that it quotes, and by nothing else.

func nodePortKey(protocol uint8, port uint16) string { return fmt.Sprint(protocol, " ", port) }

// placeNodePort adds a port of a service to the index, if it is a node port, or removes it.
func (c *cache) placeNodePort(tenant string, p pipeline.ServicePort, service string, change func(x index, place, service string)) {
	if p.Shared {
		key := nodePortKey(p.Protocol, p.Port)
		change(c.nodePorts, key, tenant+" "+service)
		c.markAtNodes(key)
	}
}

// NodePortVRF is the VRF of the tenant whose service has a node port; 0: nobody's, or nothing of the tenant is known here.
func (a *Agent) NodePortVRF(protocol uint8, port uint16) uint16 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for owner := range a.cache.nodePorts[nodePortKey(protocol, port)] {
		tenant, _, _ := strings.Cut(owner, " ")
		return a.cache.vrfs[tenant]
	}
	return 0
}

// nodePortsVRF is the VRF of the tenant whose services have node ports; 0: none has, or more than one.
func (c *cache) nodePortsVRF() uint16 {
	only := ""
	for _, owners := range c.nodePorts {
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

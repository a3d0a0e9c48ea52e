package k8s

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// maxPorts is how many ports of a service are served, each counted at every address: there each of them has flows, and a group,
// on every node. Kubernetes has no limit.
const maxPorts = 10 * 1000

// maxRanges is how many source ranges of a service are served, the first ones: each has flows at every address of a load balancer.
const maxRanges = 1000

// servedPorts are the ports of a service that are served, the first ones, one at least. They are counted at the addresses that
// the service says: those that others have may be its own tomorrow. At one of a load balancer a port is counted for each source
// range. A node port is one at an address of each version of IP.
func servedPorts(s mastercfg.K8sService) []mastercfg.K8sServicePort {
	addresses := len(s.Addresses) + min(len(s.External), maxExternal) + min(len(s.LoadBalancers), maxExternal)*max(1, len(s.SourceRanges))
	total := 0
	for i, p := range s.Ports {
		total += addresses
		if p.NodePort != 0 {
			total += len(s.Addresses)
		}
		if total > maxPorts && i > 0 {
			return s.Ports[:i]
		}
	}
	return s.Ports
}

// tooMany tells of ports and source ranges that are not served.
func tooMany(s *corev1.Service, served mastercfg.K8sService) (texts []string) {
	if all, some := len(s.Spec.Ports), len(served.Ports); some < all {
		texts = append(texts, fmt.Sprintf("%d of %d ports are not served: %d are, each counted at every address of the service, and there for each source range of load balancers; use several services, or fewer addresses",
			all-some, all, maxPorts))
	}
	if all := len(s.Spec.LoadBalancerSourceRanges); all > maxRanges {
		texts = append(texts, fmt.Sprintf("%d of %d loadBalancerSourceRanges are not served: the first %d are; use fewer, larger ones", all-maxRanges, all, maxRanges))
	}
	return texts
}

package k8s

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// maxPorts limits the ports of a service, each counted at every address: there each has flows, and a group, on
// every node. Kubernetes has no limit.
const maxPorts = 10 * 1000

// maxRanges is how many source ranges of a service are used, from the first: each has flows at every load balancer
// address.
const maxRanges = 1000

// servedPorts returns the ports of a service that are served: as many as fit, from the first, but at least one.
// They are counted at all addresses that the service names: an address that is used by another service now may
// be its own later. At a load balancer address a port counts once for each source range. A node port counts at
// one address of each IP family.
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

// tooMany describes the ports and source ranges that are not served.
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

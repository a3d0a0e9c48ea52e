package k8s

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// maxPorts is how many ports of a service are served, each counted at every address: there each of them has flows, and a group,
// on every node. Kubernetes has no limit.
const maxPorts = 10 * 1000

// servedPorts are the ports of a service that are served, the first ones. They are counted at the addresses that the service
// says: those that others have may be its own tomorrow. A node port is one at an address of each version of IP.
func servedPorts(s mastercfg.K8sService) []mastercfg.K8sServicePort {
	addresses := len(s.Addresses) + min(len(s.External), maxExternal) + min(len(s.LoadBalancers), maxExternal)
	total := 0
	for i, p := range s.Ports {
		total += addresses
		if p.NodePort != 0 {
			total += len(s.Addresses)
		}
		if total > maxPorts {
			return s.Ports[:i]
		}
	}
	return s.Ports
}

// tooManyPorts tells of those that are not served.
func tooManyPorts(s *corev1.Service, served mastercfg.K8sService) (texts []string) {
	if all, some := len(s.Spec.Ports), len(served.Ports); some < all {
		texts = append(texts, fmt.Sprintf("%d of %d ports are not served: %d are, each counted at every address of the service; use several services, or fewer addresses",
			all-some, all, maxPorts))
	}
	return texts
}

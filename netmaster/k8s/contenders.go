package k8s

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// contenders returns the services that may get or lose an external address because a service has come, gone or changed:
// others with one of its external addresses and an equal port, or with its ClusterIP, which takes precedence at all ports.
func (b *balancer) contenders(object any) (services []string) {
	s, ok := object.(*corev1.Service)
	if !ok {
		return nil
	}
	record, _ := b.recordOf(s)
	ports := portsOf(record)
	for i, list := range [][]netip.Addr{record.Addresses, record.External, record.LoadBalancers} {
		for _, a := range list {
			others, _ := b.addressed.ByIndex(addressIndex, a.String()) // its own index
			for _, object := range others {
				other := object.(*corev1.Service) // the index has nothing else
				if (other.Namespace != s.Namespace || other.Name != s.Name) && (i == 0 || slices.ContainsFunc(other.Spec.Ports, ports.have)) {
					services = append(services, other.Namespace+"/"+other.Name)
				}
			}
		}
	}
	return services
}

// sameClaims reports whether an update of a service has left its external addresses and ports as they were.
func (b *balancer) sameClaims(before, now any) bool {
	was, _ := before.(*corev1.Service)
	is, _ := now.(*corev1.Service)
	if was == nil || is == nil {
		return false
	}
	old, _ := b.recordOf(was)
	record, _ := b.recordOf(is)
	return slices.Equal(old.Addresses, record.Addresses) && slices.Equal(old.External, record.External) &&
		slices.Equal(old.LoadBalancers, record.LoadBalancers) && slices.Equal(old.Ports, record.Ports)
}

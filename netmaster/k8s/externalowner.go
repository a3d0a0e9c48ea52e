package k8s

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Ranks of external addresses: where two services have one, the lower rank has precedence.
const (
	byBalancer = iota // assigned by a load balancer
	bySpec            // written in externalIPs
)

// ownerOf returns the name of another service that has precedence at an address, or nothing. A ClusterIP belongs
// to its service. Several services may share an external address if none of their ports are equal; of those with
// an equal port, the one with the lower rank has precedence, then the first by name. Services without an address
// of the same family do not count.
func (b *balancer) ownerOf(a netip.Addr, rank int, record *mastercfg.K8sService) (name string, err error) {
	others, err := b.addressed.ByIndex(addressIndex, a.String())
	if err != nil {
		return "", err
	}
	own := record.Namespace + "/" + record.Name
	for _, object := range others {
		s := object.(*corev1.Service) // the index has nothing else
		id := s.Namespace + "/" + s.Name
		if id == own || name != "" && id > name {
			continue
		}
		other, _ := b.recordOf(s)
		earlier := func(list []netip.Addr, its int) bool {
			return slices.Contains(list, a) && other.Reaches(a) && cmp.Or(cmp.Compare(its, rank), cmp.Compare(id, own)) < 0 && samePort(record, other)
		}
		if slices.Contains(other.Addresses, a) || earlier(other.LoadBalancers, byBalancer) || earlier(other.External, bySpec) {
			name = id // the first by name, so that the event stays the same
		}
	}
	return name, nil
}

// portSet has the ports of a service, of which there may be thousands.
type portSet map[portAt]struct{}

type portAt struct {
	protocol string
	number   uint16
}

// portsOf returns the ports of a service.
func portsOf(record mastercfg.K8sService) portSet {
	ports := make(portSet, len(record.Ports))
	for _, p := range record.Ports {
		ports[portAt{p.Protocol, p.Port}] = struct{}{}
	}
	return ports
}

// have reports whether a port of a service has the number and protocol of one of these.
func (s portSet) have(p corev1.ServicePort) bool {
	_, both := s[portAt{string(p.Protocol), uint16(p.Port)}]
	return both
}

// samePort reports whether two services have a port of the same number and protocol.
func samePort(a *mastercfg.K8sService, b mastercfg.K8sService) bool {
	ports := portsOf(*a)
	return slices.ContainsFunc(b.Ports, func(p mastercfg.K8sServicePort) bool {
		_, both := ports[portAt{p.Protocol, p.Port}]
		return both
	})
}

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

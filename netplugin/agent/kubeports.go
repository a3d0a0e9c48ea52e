package agent

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/inet"
)

// kubePorts returns all ports of a tenant's service at all of its addresses.
func kubePorts(tenant string, s mastercfg.K8sService) []kubePort {
	l := portLayout{service: s, inCluster: clientsInCluster(tenant, s), external: external(s)}
	for _, p := range s.Ports {
		protocol := inet.TransportNumber(strings.ToLower(p.Protocol))
		if protocol != inet.TCP && protocol != inet.UDP || p.Port == 0 {
			continue // includes SCTP, whose ports the switch's connection tracker does not know
		}
		l.add(p, protocol)
	}
	return slices.Concat(l.ports, l.atNodes, l.balanced)
}

// clientsInCluster returns the clients of a service at its cluster addresses. Hosts reach services of the
// default tenant, and shared ones, like its pods, from their interface in its network (reachedFrom). They reach
// services of other tenants through the port to the host.
func clientsInCluster(tenant string, s mastercfg.K8sService) pipeline.Clients {
	switch {
	case s.Shared:
		return pipeline.FromPods | pipeline.FromTenants
	case tenant != mastercfg.DefaultTenant:
		return pipeline.FromPods | pipeline.FromHost
	}
	return pipeline.FromPods
}

// portLayout lays out the ports of a service: one for each of its addresses and
// kinds of clients. Ports at addresses of nodes and load balancers come last, so
// that the others keep their group numbers when such an address is added or removed.
type portLayout struct {
	service   mastercfg.K8sService
	inCluster pipeline.Clients // at cluster addresses
	external  []netip.Addr     // addresses other than the cluster addresses

	ports    []kubePort
	atNodes  []kubePort // for pods, at addresses that nodes have in Kubernetes
	balanced []kubePort // for all but pods, at addresses of nodes and of load balancers
}

// add lays out one port of the service at all addresses.
func (l *portLayout) add(p mastercfg.K8sServicePort, protocol uint8) {
	s := l.service
	for _, a := range s.Addresses {
		l.ports = append(l.ports, l.at(p, protocol, a, p.Port, l.inCluster, s.InternalLocal)...)
	}
	for _, a := range l.external {
		l.addOutside(p, protocol, a, p.Port)
	}
	if p.NodePort == 0 {
		return
	}
	for _, a := range s.Addresses {
		anyAddress := netip.IPv6Unspecified()
		if a.Is4() {
			anyAddress = netip.IPv4Unspecified()
		}
		l.addOutside(p, protocol, anyAddress, p.NodePort)
	}
}

// addOutside adds a port at an address that clients outside the cluster use as well: an external one, or for a
// node port any address of the node.
func (l *portLayout) addOutside(p mastercfg.K8sServicePort, protocol uint8, a netip.Addr, number uint16) {
	ports := l.at(p, protocol, a, number, pipeline.FromPods|pipeline.FromHost, false)
	if l.service.ExternalLocal {
		ports = append(ports, l.at(p, protocol, a, number, pipeline.FromOutside, true)...)
	}
	ofNode, ofBalancer := slices.Contains(l.service.AtNodes, a), slices.Contains(l.service.LoadBalancers, a)
	if !ofNode {
		l.ports = append(l.ports, ports...)
	}
	if !ofNode && !ofBalancer {
		return
	}
	for _, port := range ports {
		port.ofNode = ofNode
		if ofNode && port.From&pipeline.FromPods != 0 {
			pods := port
			pods.From, pods.Machine = pipeline.FromPods, true
			l.atNodes = append(l.atNodes, pods)
		}
		if port.From &^= pipeline.FromPods; port.From != 0 {
			port.balancer = true
			l.balanced = append(l.balanced, port)
		}
	}
}

// at returns a port at one address for some clients; nil if none of them reaches it there.
func (l *portLayout) at(p mastercfg.K8sServicePort, protocol uint8, a netip.Addr, number uint16, from pipeline.Clients, local bool) []kubePort {
	s := l.service
	if s.Guest {
		from &= pipeline.FromPods
	}
	if from == 0 || s.Guest && a.IsUnspecified() {
		return nil
	}
	return []kubePort{{
		name: p.Name, local: local, cluster: slices.Contains(s.Addresses, a),
		limited:     slices.Contains(s.LoadBalancers, a) || slices.Contains(s.AtNodes, a), // also if it is an external address at the same time
		ServicePort: pipeline.ServicePort{Name: p.Name, Address: a, From: from, Protocol: protocol, Port: number, Shared: a.IsUnspecified()},
	}}
}

// external returns the addresses of a service other than its cluster addresses, limited to the IP families of
// those. The present leader filters these itself, leaders of earlier versions do not.
func external(s mastercfg.K8sService) (some []netip.Addr) {
	for _, a := range slices.Concat(s.External, s.LoadBalancers, s.AtNodes) {
		if s.Reaches(a) && !slices.Contains(s.Addresses, a) && !slices.Contains(some, a) {
			some = append(some, a)
		}
	}
	return some
}

package agent

import (
	"net/netip"
	"slices"
	"time"
)

// KubeHealth is what others ask a node about services of Kubernetes.
type KubeHealth struct {
	Ports   map[uint16]HealthPort // of services that have a port for that; only read
	Leaving bool                  // the node is about to be deleted
	Updated time.Time             // when the node was known to have what it should; now, if it has
	Changed <-chan struct{}       // is closed when anything may be different
}

// HealthPort is what load balancers ask about a service.
type HealthPort struct {
	Namespace, Name string
	Backends        int // ready ones on this node, that are not about to end, by their addresses of the version of IP that has more: a pod may have one of each
}

// KubeHealth tells how services of Kubernetes are served here.
func (a *Agent) KubeHealth() KubeHealth {
	ready := a.Ready() == nil
	a.mu.Lock()
	defer a.mu.Unlock()
	if ready {
		a.wasReady = time.Now()
	}
	if a.health.Changed != a.news { // all services are looked at when something has changed, not for whoever asks
		a.health = a.cache.kubeHealth()
		a.health.Changed = a.news
	}
	h := a.health
	h.Updated = a.wasReady
	return h
}

func (c *cache) healthPorts() (ports []uint16) {
	for id := range c.kube.asked {
		ports = append(ports, c.kube.services[id].record.HealthPort)
	}
	slices.Sort(ports)
	return ports
}

func (c *cache) kubeHealth() KubeHealth {
	h := KubeHealth{Ports: make(map[uint16]HealthPort, len(c.kube.asked)), Leaving: c.kube.nodes[c.host].Leaving}
	for id := range c.kube.asked {
		s := c.kube.services[id].record
		here := map[bool]map[netip.Addr]struct{}{false: {}, true: {}}
		for _, port := range c.kube.backends[id] {
			for at, b := range port {
				if b.Ready && !b.Terminating && b.Node == c.host {
					here[at.Addr().Is4()][at.Addr()] = struct{}{}
				}
			}
		}
		h.Ports[s.HealthPort] = HealthPort{Namespace: s.Namespace, Name: s.Name, Backends: max(len(here[true]), len(here[false]))}
	}
	return h
}

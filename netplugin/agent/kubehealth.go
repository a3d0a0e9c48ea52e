package agent

import (
	"net/netip"
	"slices"
	"time"
)

// KubeHealth is the state that the health checks of load balancers ask for.
type KubeHealth struct {
	Ports   map[uint16]HealthPort // of services with a health check port; read-only
	Leaving bool                  // the node is about to be deleted
	Updated time.Time             // when the node was last known to be ready; now, if it is
	Changed <-chan struct{}       // is closed when any of this may have changed
}

// HealthPort is the state of a service with a health check port.
type HealthPort struct {
	Namespace, Name string
	Backends        int // ready, not terminating backends on this node, counted by addresses of the IP family that has more: a pod may have one of each
}

// KubeHealth returns how this node serves Kubernetes services.
func (a *Agent) KubeHealth() KubeHealth {
	ready := a.Ready() == nil
	a.mu.Lock()
	defer a.mu.Unlock()
	if ready {
		a.wasReady = time.Now()
	}
	if a.health.Changed != a.news { // all services are evaluated once for each change, not for each request
		a.health = a.cache.kubeHealth()
		a.health.Changed = a.news
	}
	h := a.health
	h.Updated = a.wasReady
	return h
}

func (c *cache) healthPorts() (ports []uint16) {
	for id := range c.kube.healthChecked {
		ports = append(ports, c.kube.services[id].record.HealthPort)
	}
	slices.Sort(ports)
	return ports
}

func (c *cache) kubeHealth() KubeHealth {
	h := KubeHealth{Ports: make(map[uint16]HealthPort, len(c.kube.healthChecked)), Leaving: c.kube.nodes[c.host].Leaving}
	for id := range c.kube.healthChecked {
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

package agent

import (
	"context"
	"net/netip"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Counters are packet and byte counts of this node.
type Counters struct {
	Rules     map[string]drivers.Count  // by rule id: packets that the rule decided on this node
	Endpoints map[string]EndpointCounts // by endpoint id, of those on this node
	Services  map[string]ServiceCounts  // by service id, if requested
}

// EndpointCounts is an endpoint's traffic as its container sees it.
type EndpointCounts struct{ Received, Sent drivers.Count }

// ServiceCounts counts what the providers of a service received from clients of this node, and what they sent
// back. Clients outside that enter the cluster at this node are included.
type ServiceCounts struct {
	Tenant string
	Ports  []PortCounts // at each address
}

// PortCounts is the traffic of one port, by provider: Received by the provider and Sent by it.
type PortCounts struct {
	pipeline.ServicePort
	Providers map[netip.Addr]EndpointCounts
}

// Counters reads the counters of the programmed objects of a kind from the switch; an id selects one object. An
// empty kind means rules and endpoints.
func (a *Agent) Counters(ctx context.Context, kind pipeline.Kind, id string) (Counters, error) {
	counted := Counters{Rules: make(map[string]drivers.Count), Endpoints: make(map[string]EndpointCounts)}
	objects := a.countable(kind, id)
	if len(objects) == 0 {
		return counted, nil
	}
	found, err := a.cfg.Driver.Counters(ctx, objects...)
	if err != nil {
		return Counters{}, err
	}
	for key, n := range found {
		switch key.Kind {
		case pipeline.KindRule:
			counted.Rules[key.ID] = n.Decided
		case pipeline.KindEndpoint:
			counted.Endpoints[key.ID] = EndpointCounts{Received: n.Received, Sent: n.Sent}
		case pipeline.KindService:
			if counts, ok := a.serviceCounts(key.ID, n.Served); ok {
				if counted.Services == nil {
					counted.Services = make(map[string]ServiceCounts)
				}
				counted.Services[key.ID] = counts
			}
		}
	}
	return counted, nil
}

// countable returns the objects in the switch that have counters.
func (a *Agent) countable(kind pipeline.Kind, id string) (objects []pipeline.Key) {
	a.mu.Lock()
	defer a.mu.Unlock()
	add := func(key pipeline.Key) {
		_, given := a.planner.given[key]
		if given && (kind == "" || kind == key.Kind) && (id == "" || id == key.ID) {
			objects = append(objects, key)
		}
	}
	for rule := range a.cache.rules {
		add(pipeline.Key{Kind: pipeline.KindRule, ID: rule})
	}
	if kind == pipeline.KindService {
		for service := range a.cache.services.byID {
			add(pipeline.Key{Kind: kind, ID: service})
		}
	}
	for endpoint := range a.cache.endpointsOn[a.cfg.HostLabel] {
		add(pipeline.Key{Kind: pipeline.KindEndpoint, ID: endpoint})
	}
	return objects
}

// serviceCounts groups the counts of the switch by the ports of a service.
func (a *Agent) serviceCounts(id string, served map[pipeline.Served]drivers.Count) (counts ServiceCounts, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.cache.services.byID[id]
	if !ok {
		return counts, false // deleted meanwhile
	}
	counts = ServiceCounts{Tenant: s.tenant}
	type asked struct {
		address  netip.Addr
		protocol uint8
		port     uint16
	}
	of := map[asked]map[netip.Addr]EndpointCounts{}
	for _, p := range a.cache.portsFromHost(s.part.Ports, a.cache.networks[s.netID].part.Encap) {
		port := PortCounts{ServicePort: p, Providers: map[netip.Addr]EndpointCounts{}}
		of[asked{p.Address, p.Protocol, p.Port}] = port.Providers
		counts.Ports = append(counts.Ports, port)
	}
	for what, n := range served {
		providers, known := of[asked{what.Address, what.Protocol, what.Port}]
		if !known {
			continue // the service's record has changed meanwhile
		}
		sum := providers[what.Provider]
		if what.Answers {
			sum.Sent = n
		} else {
			sum.Received = n
		}
		providers[what.Provider] = sum
	}
	return counts, true
}

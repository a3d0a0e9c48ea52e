package agent

import (
	"context"
	"net/netip"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Counters is what a node has counted.
type Counters struct {
	Rules     map[string]drivers.Count  // by rule id: what the rule decided about here
	Endpoints map[string]EndpointCounts // by endpoint id, of those on this node
	Services  map[string]ServiceCounts  // by service id, if they were asked for
}

// EndpointCounts is an endpoint's traffic as its container sees it.
type EndpointCounts struct{ Received, Sent drivers.Count }

// ServiceCounts is what the providers of a service received from clients of this node, sent to endpoints
// of this node and, if they are on this node, to hosts.
type ServiceCounts struct {
	Tenant string
	Ports  []PortCounts // at each address
}

// PortCounts is the traffic of one port, by provider: Received by the provider and Sent by it.
type PortCounts struct {
	pipeline.ServicePort
	Providers map[netip.Addr]EndpointCounts
}

// Counters asks the switch about the objects of a kind that are programmed here;
// an id limits it to one of them. An empty kind means rules and endpoints.
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

// countable are the objects in the switch that count something.
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
		for service := range a.cache.service {
			add(pipeline.Key{Kind: kind, ID: service})
		}
	}
	for endpoint := range a.cache.endpointsOn[a.cfg.HostLabel] {
		add(pipeline.Key{Kind: pipeline.KindEndpoint, ID: endpoint})
	}
	return objects
}

// serviceCounts sorts what the switch has counted by the ports of a service. Answers tell
// the provider's port only; where several ports have the same one, the first gets them. Answers
// to hosts are counted by the providers' nodes.
func (a *Agent) serviceCounts(id string, served map[pipeline.Served]drivers.Count) (counts ServiceCounts, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := a.cache.service[id]
	if !ok {
		return counts, false // it has gone meanwhile
	}
	ports := a.cache.enteredBy(s.part.Ports, a.cache.networks[s.netID].part.Encap)
	counts = ServiceCounts{Tenant: s.tenant}
	type target struct {
		ipv4     bool
		protocol uint8
		port     uint16
	}
	targets := map[target]bool{}
	for _, p := range ports {
		target := target{p.Address.Is4(), p.Protocol, p.Target}
		port := PortCounts{ServicePort: p, Providers: map[netip.Addr]EndpointCounts{}}
		for what, n := range served {
			sum := port.Providers[what.Provider]
			switch {
			case what.Protocol == p.Protocol && what.Address == p.Address && what.Port == p.Port:
				sum.Received = n
			case what.Leaving && !a.cache.hasHere(s.tenant, what.Provider):
				continue
			case what.Protocol == p.Protocol && what.Provider.Is4() == p.Address.Is4() && what.Target == p.Target && !targets[target]:
				sum.Sent = drivers.Count{Packets: sum.Sent.Packets + n.Packets, Bytes: sum.Sent.Bytes + n.Bytes}
			default:
				continue
			}
			port.Providers[what.Provider] = sum
		}
		targets[target] = true
		counts.Ports = append(counts.Ports, port)
	}
	return counts, true
}

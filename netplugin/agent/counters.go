package agent

import (
	"context"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Counters is what a node has counted.
type Counters struct {
	Rules     map[string]drivers.Count  // by rule id: what the rule decided about here
	Endpoints map[string]EndpointCounts // by endpoint id, of those on this node
}

// EndpointCounts is an endpoint's traffic as its container sees it.
type EndpointCounts struct{ Received, Sent drivers.Count }

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
	for endpoint := range a.cache.endpointsOn[a.cfg.HostLabel] {
		add(pipeline.Key{Kind: pipeline.KindEndpoint, ID: endpoint})
	}
	return objects
}

package api

import (
	"context"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/ratelimit"
)

const (
	// countersPatience is how long the nodes may take to return their counters.
	countersPatience = 3 * time.Second
	// tallyPatience is how long a request may wait for earlier requests to all nodes.
	tallyPatience = 10 * time.Second
	// askedAtOnce is how many nodes are called at the same time.
	askedAtOnce = 8
)

// tally is the sum of the counters of all nodes. Concurrent requests share it.
type tally struct {
	rules    map[string]contivmodel.RuleCounters                // by the rule's key
	services map[string]map[string]contivmodel.EndpointCounters // by service id and provider
	silent   []string                                           // nodes that did not answer, each with the cause
}

// tally reads the counters of all nodes. Concurrent requests for the
// same share one reading, as nodes answer few long requests at a time.
func (a *API) tally(ctx context.Context, query url.Values) (*tally, error) {
	release, err := a.entrance.Take(ctx, ratelimit.LongAnswer)
	if err != nil {
		return nil, err
	}
	defer release()
	all, err, _ := a.tallies.Do(query.Encode(), func() (any, error) {
		ctx := context.WithoutCancel(ctx) // other requests wait for it as well
		waiting, cancel := context.WithTimeout(ctx, tallyPatience)
		defer cancel()
		done, err := a.nodes.tallying.Acquire(waiting)
		if err != nil {
			return &tally{silent: []string{"all nodes: they are being asked by others: " + err.Error()}}, nil
		}
		defer done()
		return a.askNodes(ctx, query)
	})
	if err != nil {
		return nil, err
	}
	return all.(*tally), nil
}

// askNodes reads the counters of all nodes, and adds up their answers one at a time.
func (a *API) askNodes(ctx context.Context, query url.Values) (*tally, error) {
	registered, err := a.store.Services(ctx, mastercfg.AgentService)
	if err != nil {
		return nil, err
	}
	agents := map[string]agentAt{} // by host: a host has several registrations
	for _, s := range registered {
		agents[s.Hostname] = registeredAt(s)
	}
	ctx, cancel := context.WithTimeout(ctx, countersPatience)
	defer cancel()
	all := &tally{rules: map[string]contivmodel.RuleCounters{}, services: map[string]map[string]contivmodel.EndpointCounters{}}
	var mu sync.Mutex
	var asking errgroup.Group
	asking.SetLimit(askedAtOnce)
	for host, at := range agents {
		asking.Go(func() error {
			counted, err := a.counted(ctx, at, query)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				all.silent = append(all.silent, host+": "+err.Error())
			}
			all.add(counted)
			return nil
		})
	}
	err = asking.Wait()
	slices.Sort(all.silent)
	return all, err
}

// add adds the counters of one node.
func (t *tally) add(counted nodeCounters) {
	for id, n := range counted.Rules {
		if key, ok := ruleOf(id); ok {
			sum := t.rules[key]
			t.rules[key] = contivmodel.RuleCounters{Bytes: sum.Bytes + n.Bytes, Packets: sum.Packets + n.Packets}
		}
	}
	for id, providers := range counted.Services {
		if t.services[id] == nil {
			t.services[id] = map[string]contivmodel.EndpointCounters{}
		}
		for provider, n := range providers {
			sum := t.services[id][provider]
			t.services[id][provider] = contivmodel.EndpointCounters{
				RxBytes: sum.RxBytes + n.RxBytes, RxPackets: sum.RxPackets + n.RxPackets,
				TxBytes: sum.TxBytes + n.TxBytes, TxPackets: sum.TxPackets + n.TxPackets,
			}
		}
	}
}

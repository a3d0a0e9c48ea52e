package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/mux"
	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// CountersPath is where the counters of a policy's rules are found, by its key.
const CountersPath = "/api/v1/counters/policys/"

const (
	// countersPatience is how long the nodes may take to tell what they count.
	countersPatience = 3 * time.Second
	// askedAtOnce is how many nodes are asked at the same time.
	askedAtOnce = 8
)

// nodeCounters is what a node tells of its counters.
type nodeCounters struct {
	Rules     map[string]contivmodel.RuleCounters     // by rule id
	Endpoints map[string]contivmodel.EndpointCounters // by endpoint id

	Services map[string]map[string]contivmodel.EndpointCounters // by service id and provider
}

// counters answers with what the rules of a policy have counted on all nodes.
// A node that does not answer is named, and the rest is told all the same.
func (a *API) counters(r *http.Request) (reply, error) {
	policy := mux.Vars(r)["key"]
	if err := a.ledger.View(func(reader ledger.Reader) error {
		if !master.Exists(reader, "policy", policy) {
			return notFound("policy")
		}
		return nil
	}); err != nil {
		return reply{}, err
	}
	sum := contivmodel.PolicyCounters{Rules: map[string]contivmodel.RuleCounters{}}
	silent, err := a.askNodes(r.Context(), url.Values{"kind": {"rule"}}, func(counted nodeCounters) {
		for id, n := range counted.Rules {
			if key, ok := ruleOf(id, policy); ok {
				total := sum.Rules[key]
				sum.Rules[key] = contivmodel.RuleCounters{Bytes: total.Bytes + n.Bytes, Packets: total.Packets + n.Packets}
			}
		}
	})
	sum.Silent = silent
	return reply{body: sum}, err
}

// askNodes asks all nodes what they count and has the answers added up, one at a time.
// It returns who did not answer, each with the cause.
func (a *API) askNodes(ctx context.Context, query url.Values, add func(nodeCounters)) (silent []string, err error) {
	registered, err := a.store.Services(ctx, mastercfg.AgentService)
	if err != nil {
		return nil, err
	}
	agents := map[string]agentAt{} // by host, which has several registrations
	for _, s := range registered {
		agents[s.Hostname] = registeredAt(s)
	}
	ctx, cancel := context.WithTimeout(ctx, countersPatience)
	defer cancel()
	var mu sync.Mutex
	var asking errgroup.Group
	asking.SetLimit(askedAtOnce)
	for host, at := range agents {
		asking.Go(func() error {
			counted, err := a.counted(ctx, at, query)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent = append(silent, host+": "+err.Error())
				return nil
			}
			add(counted)
			return nil
		})
	}
	err = asking.Wait()
	slices.Sort(silent)
	return silent, err
}

// serviceCounters adds to what is known of a service what its providers exchanged with
// clients. Who counts nothing is left out.
func (a *API) serviceCounters(ctx context.Context, id string, oper *contivmodel.ServiceLBOper) (err error) {
	oper.Silent, err = a.askNodes(ctx, url.Values{"kind": {"service"}, "id": {id}}, func(counted nodeCounters) {
		for provider, n := range counted.Services[id] {
			if n == (contivmodel.EndpointCounters{}) {
				continue
			}
			if oper.Counters == nil {
				oper.Counters = map[string]contivmodel.EndpointCounters{}
			}
			sum := oper.Counters[provider]
			oper.Counters[provider] = contivmodel.EndpointCounters{
				RxBytes: sum.RxBytes + n.RxBytes, RxPackets: sum.RxPackets + n.RxPackets,
				TxBytes: sum.TxBytes + n.TxBytes, TxPackets: sum.TxPackets + n.TxPackets,
			}
		}
	})
	return err
}

// ruleOf is the key of the rule of a policy that a directional rule is made of;
// ok is false for those of other policies. See mastercfg.RuleID.
func ruleOf(id, policy string) (key string, ok bool) {
	parts := strings.Split(id, ":") // T:G:T:P:T:P:R:inRx
	if len(parts) != 8 || strings.Join(parts[4:6], ":") != policy {
		return "", false
	}
	return strings.Join(parts[4:7], ":"), true
}

// endpointCounters is what the node of an endpoint has counted of it; nil if it
// is not known, since nobody should wait long for the rest of an answer.
func (a *API) endpointCounters(ctx context.Context, ep *mastercfg.CfgEndpointState) *contivmodel.EndpointCounters {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	at, registered, err := a.agentOf(ctx, mastercfg.AgentService, ep.HomingHost)
	if err != nil || !registered {
		return nil
	}
	counted, err := a.counted(ctx, at, url.Values{"kind": {"endpoint"}, "id": {ep.ID}})
	if err != nil {
		a.config.Log.WithError(err).WithField("endpoint", ep.ID).Debug("counters are not known")
		return nil
	}
	if n, known := counted.Endpoints[ep.ID]; known {
		return &n
	}
	return nil
}

// counted asks one node. Answers are understood one at a time.
func (a *API) counted(ctx context.Context, at agentAt, query url.Values) (counted nodeCounters, err error) {
	body, err := a.nodes.call(ctx, http.MethodGet, at, "/inspect/counters?"+query.Encode(), countedAnswer)
	if err != nil {
		return counted, err
	}
	done, err := a.nodes.reading.wait(ctx)
	if err != nil {
		return counted, fault.New(fault.Unavailable, "node %s: its counters wait for others: %w", at.host, err)
	}
	defer done()
	if err := json.Unmarshal(body, &counted); err != nil {
		return counted, fault.New(fault.Internal, "node %s: counters cannot be understood: %w", at.host, err)
	}
	return counted, nil
}

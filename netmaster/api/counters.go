package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/objects"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// countersPath is the path of the counters of a policy's rules, followed by its key.
const countersPath = "/api/v1/counters/policys/"

// nodeCounters is a node's answer with its counters.
type nodeCounters struct {
	Rules     map[string]contivmodel.RuleCounters     // by rule id
	Endpoints map[string]contivmodel.EndpointCounters // by endpoint id

	Services map[string]map[string]contivmodel.EndpointCounters // by service id and provider
}

// counters answers the counts of a policy's rules on all nodes. Nodes that do not answer are named, and the
// rest is answered all the same.
func (a *API) counters(r *http.Request) (rest.Reply, error) {
	policy := mux.Vars(r)["key"]
	if err := a.mustExist("policy", policy); err != nil {
		return rest.Reply{}, err
	}
	all, err := a.tally(r.Context(), url.Values{"kind": {"rule"}})
	if err != nil {
		return rest.Reply{}, err
	}
	sum := contivmodel.PolicyCounters{Rules: map[string]contivmodel.RuleCounters{}, Silent: all.silent}
	for key, n := range all.rules {
		if strings.HasPrefix(key, policy+":") {
			sum.Rules[key] = n
		}
	}
	return rest.Reply{Body: sum}, nil
}

// mustExist returns an error of kind NotFound unless the object is there, before nodes are asked about it.
func (a *API) mustExist(kind, key string) error {
	return a.ledger.View(func(reader ledger.Reader) error {
		if !master.Exists(reader, kind, key) {
			return objects.NotFound(kind)
		}
		return nil
	})
}

// serviceCounters adds to a service's state what its providers
// exchanged with clients. Providers without counts are left out.
func (a *API) serviceCounters(ctx context.Context, id string, oper *contivmodel.ServiceLBOper) error {
	all, err := a.tally(ctx, url.Values{"kind": {"service"}, "id": {id}})
	if err != nil {
		return err
	}
	oper.Silent = all.silent
	for provider, n := range all.services[id] {
		if n == (contivmodel.EndpointCounters{}) {
			continue
		}
		if oper.Counters == nil {
			oper.Counters = map[string]contivmodel.EndpointCounters{}
		}
		oper.Counters[provider] = n
	}
	return nil
}

// ruleOf returns the key T:P:R of the rule that a directional rule
// is derived from; ok is false for other ids. See mastercfg.RuleID.
func ruleOf(id string) (key string, ok bool) {
	parts := strings.Split(id, ":") // T:G:T:P:T:P:R:inRx
	if len(parts) != 8 {
		return "", false
	}
	return strings.Join(parts[4:7], ":"), true
}

// endpointCounters returns the counters of an endpoint from its node; nil if they are not available within a
// second, so that the rest of the answer does not wait for them.
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

// counted reads the counters of one node. Answers are decoded one at a time.
func (a *API) counted(ctx context.Context, at agentAt, query url.Values) (counted nodeCounters, err error) {
	body, err := a.nodes.get(ctx, at, "/inspect/counters?"+query.Encode(), countedAnswer)
	if err != nil {
		return counted, err
	}
	done, err := a.nodes.reading.Acquire(ctx)
	if err != nil {
		return counted, fault.New(fault.Unavailable, "node %s: its counters wait for others: %w", at.host, err)
	}
	defer done()
	if err := json.Unmarshal(body, &counted); err != nil {
		return counted, fault.New(fault.Internal, "node %s: counters cannot be understood: %w", at.host, err)
	}
	return counted, nil
}

// serviceSegment is the collection of services.
const serviceSegment = "serviceLBs"

// inspectService answers a service, with its counters on all nodes.
func (a *API) inspectService(r *http.Request) (rest.Reply, error) {
	var shown contivmodel.ServiceLBInspect
	err := a.ledger.View(func(reader ledger.Reader) error {
		s, err := master.Get[contivmodel.ServiceLB](reader, mux.Vars(r)["key"], objects.NotFound("serviceLB"))
		if err != nil {
			return err
		}
		shown, err = objects.InspectService(reader, s)
		return err
	})
	if err != nil {
		return rest.Reply{}, err
	}
	err = a.serviceCounters(r.Context(), mastercfg.ServiceID(shown.Config.TenantName, shown.Config.ServiceName), &shown.Oper)
	return rest.Reply{Body: shown}, err
}

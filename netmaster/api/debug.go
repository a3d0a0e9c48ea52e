package api

import (
	"net"
	"net/http"
	"strconv"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// ofnetState is the answer of /debug/ofnet. The original controller dumped the
// memory of its channel to the agents there. There is no such channel any more:
// what agents act on is shown instead, under the same names.
type ofnetState struct {
	MyAddr     string
	MyPort     int
	AgentDb    map[string]ofnetNode                  // by address:port
	EndpointDb map[string]mastercfg.CfgEndpointState // by endpoint id
	PolicyDb   map[string]mastercfg.CfgPolicyRule    // by rule id
	AgentStats struct{}                              // always empty
}

type ofnetNode struct {
	HostAddr string
	HostPort int
	Hostname string
}

func (a *API) ofnet(r *http.Request) (reply, error) {
	state := ofnetState{AgentDb: map[string]ofnetNode{}, EndpointDb: map[string]mastercfg.CfgEndpointState{},
		PolicyDb: map[string]mastercfg.CfgPolicyRule{}}
	host, port, err := net.SplitHostPort(a.config.Self)
	if err != nil {
		return reply{}, masterStateUnknown()
	}
	state.MyAddr = host
	if state.MyPort, err = strconv.Atoi(port); err != nil {
		return reply{}, masterStateUnknown()
	}
	agents, err := a.store.Services(r.Context(), mastercfg.AgentService)
	if err != nil {
		return reply{}, err
	}
	for _, s := range agents {
		state.AgentDb[net.JoinHostPort(s.HostAddr, strconv.Itoa(s.Port))] = ofnetNode{s.HostAddr, s.Port, s.Hostname}
	}
	err = a.ledger.View(func(reader ledger.Reader) error {
		endpoints, err := ledger.ReadAll[mastercfg.CfgEndpointState](reader, mastercfg.EndpointPrefix)
		if err != nil {
			return err
		}
		for _, ep := range endpoints {
			state.EndpointDb[ep.ID] = ep
		}
		rules, err := ledger.ReadAll[mastercfg.CfgPolicyRule](reader, mastercfg.PolicyRulePrefix)
		for _, rule := range rules {
			state.PolicyDb[rule.RuleID] = rule
		}
		return err
	})
	return reply{body: state}, err
}

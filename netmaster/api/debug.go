package api

import (
	"encoding/json"
	"net"
	"net/http"
	"strconv"

	"github.com/contiv/netplugin/netmaster/api/jsonstream"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// ofnetState is the answer of /debug/ofnet. The original controller dumped the memory of its channel to the
// agents. There is no such channel any more; the answer has the state that agents follow, under the same names.
type ofnetState struct {
	MyAddr     string
	MyPort     int
	AgentDb    map[string]ofnetNode // by address:port
	EndpointDb any                  // mastercfg.CfgEndpointState by endpoint id
	PolicyDb   any                  // mastercfg.CfgPolicyRule by rule id
	AgentStats struct{}             // always empty
}

type ofnetNode struct {
	HostAddr string
	HostPort int
	Hostname string
}

func (a *API) ofnet(r *http.Request) (rest.Reply, error) {
	state := ofnetState{AgentDb: map[string]ofnetNode{}}
	host, port, err := net.SplitHostPort(a.config.Self)
	if err != nil {
		return rest.Reply{}, masterStateUnknown()
	}
	state.MyAddr = host
	if state.MyPort, err = strconv.Atoi(port); err != nil {
		return rest.Reply{}, masterStateUnknown()
	}
	agents, err := a.store.Services(r.Context(), mastercfg.AgentService)
	if err != nil {
		return rest.Reply{}, err
	}
	for _, s := range agents {
		state.AgentDb[net.JoinHostPort(s.HostAddr, strconv.Itoa(s.Port))] = ofnetNode{s.HostAddr, s.Port, s.Hostname}
	}
	return rest.Reply{From: func(r ledger.Reader) (rest.Reply, error) {
		return rest.Reply{Body: jsonstream.Object{Of: state, Late: map[string]any{
			"EndpointDb": records(r, mastercfg.EndpointPrefix),
			"PolicyDb":   records(r, mastercfg.PolicyRulePrefix),
		}}}, nil
	}}, nil
}

// records returns the stored records below a prefix, by id, which is the rest of the key.
func records(r ledger.Reader, prefix string) jsonstream.Map {
	return func(member func(string, any) error) (err error) {
		r.Range(prefix, func(key string, value []byte) bool {
			if json.Valid(value) { // the reconciler reports invalid ones
				err = member(key[len(prefix):], json.RawMessage(value))
			}
			return err == nil
		})
		return err
	}
}

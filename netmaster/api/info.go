package api

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"

	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/buildinfo"
	"github.com/contiv/netplugin/utils/fault"
)

// clusterInfo is the answer of /info.
type clusterInfo struct {
	LocalIP        string   `json:"local-ip"`
	LeaderIP       string   `json:"leader-ip"` // host:port, despite the name
	CurrentState   string   `json:"current-state"`
	NetpluginNodes []string `json:"netplugin-nodes"`
	NetmasterNodes []string `json:"netmaster-nodes"`
}

func version(*http.Request) (rest.Reply, error) { return rest.Reply{Body: buildinfo.Get()}, nil }

func (a *API) info(r *http.Request) (rest.Reply, error) {
	host, _, err := net.SplitHostPort(a.config.Self)
	if err != nil {
		return rest.Reply{}, masterStateUnknown()
	}
	answer := clusterInfo{LocalIP: host, CurrentState: "leader"}
	if answer.LeaderIP, err = a.store.Holder(r.Context(), mastercfg.LeaderLock); err == nil {
		answer.NetpluginNodes, err = a.registered(r, mastercfg.AgentService)
	}
	if err == nil {
		answer.NetmasterNodes, err = a.registered(r, mastercfg.MasterService)
	}
	if err != nil {
		a.config.Log.WithError(err).Warn("info: cannot read the cluster's state")
		return rest.Reply{}, masterStateUnknown()
	}
	return rest.Reply{Body: answer}, nil
}

// registered returns the addresses of a registered service, without duplicates.
func (a *API) registered(r *http.Request, service string) ([]string, error) {
	services, err := a.store.Services(r.Context(), service)
	addresses := []string{}
	for _, s := range services {
		addresses = append(addresses, s.HostAddr)
	}
	slices.Sort(addresses)
	return slices.Compact(addresses), err
}

func decodeValue(kv objdb.KV, into any) error {
	if err := json.Unmarshal(kv.Value, into); err != nil {
		return fmt.Errorf("key %s: corrupt value: %w", kv.Key, err)
	}
	return nil
}

func masterStateUnknown() error { return fault.New(fault.Internal, "Error getting master state") }

package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/objects"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// inspectEndpoint answers an endpoint by its id, container id or common name, or by NAMESPACE:POD.
func (a *API) inspectEndpoint(r *http.Request) (rest.Reply, error) {
	text := mux.Vars(r)["key"]
	var ep mastercfg.CfgEndpointState
	err := a.search(r.Context(), func(reader ledger.Reader) error {
		sees, err := seesNetworks(auth.CallerFrom(r.Context()), reader)
		if err == nil {
			ep, err = lookupEndpoint(reader, sees, text)
		}
		return err
	})
	if err != nil {
		return rest.Reply{}, err
	}
	oper := objects.EndpointOper(&ep)
	oper.Key = text
	if oper.VirtualPort, err = a.virtualPort(r, ep.ID); err != nil {
		return rest.Reply{}, err
	}
	oper.Counters = a.endpointCounters(r.Context(), &ep)
	return rest.Reply{Body: contivmodel.EndpointInspect{Oper: oper}}, nil
}

// virtualPort returns the switch port that an agent has reported for an endpoint, if any.
func (a *API) virtualPort(r *http.Request, id string) (string, error) {
	kv, err := a.store.Get(r.Context(), mastercfg.OperEndpointPrefix+id)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var reported mastercfg.OperEndpointState
	if err := decodeValue(kv, &reported); err != nil || reported.PortName == "" {
		return "", err
	}
	return "v" + reported.PortName, nil
}

// lookupEndpoint prefers an exact match, then a prefix, then a substring. The match must be the only one of its
// class among the endpoints that the caller sees. Of several of one pod's name, the one whose pod Kubernetes has is
// meant: a pod that was deleted by force has its endpoint until its node has ended it.
func lookupEndpoint(r ledger.Reader, sees func(networkID string) bool, text string) (mastercfg.CfgEndpointState, error) {
	var none mastercfg.CfgEndpointState
	classes := []func(name, text string) bool{
		func(name, text string) bool { return name == text }, strings.HasPrefix, strings.Contains,
	}
	found := make([][]string, len(classes)) // keys
	verbatim := !strings.ContainsFunc(text, func(c rune) bool {
		return c > unicode.MaxASCII || !unicode.IsPrint(c) || strings.ContainsRune(`"\<>&`, c)
	})
	last := []byte(text[strings.LastIndex(text, ":")+1:])
	r.Range(mastercfg.EndpointPrefix, func(key string, value []byte) bool {
		if verbatim && !bytes.Contains(value, last) {
			return true // most need not be decoded
		}
		var ep struct {
			NetID                                                   string `json:"netID"`
			ID, EndpointID, ContainerID, EPCommonName, PodNamespace string
		}
		if json.Unmarshal(value, &ep) != nil {
			return true // the reconciler reports it
		}
		names := []string{ep.ID, ep.EndpointID, ep.ContainerID, ep.EPCommonName}
		if ep.PodNamespace != "" {
			names = append(names, ep.PodNamespace+":"+ep.EPCommonName)
		}
		asked := false
		for i, matches := range classes {
			if !slices.ContainsFunc(names, func(name string) bool { return name != "" && matches(name, text) }) {
				continue
			}
			if !asked && !sees(ep.NetID) {
				return true
			}
			asked, found[i] = true, append(found[i], key)
		}
		return true
	})
	for i, keys := range found {
		if len(keys) == 0 {
			continue
		}
		matches, err := readEndpoints(r, keys)
		if err != nil {
			return none, err
		}
		if i == 0 && len(matches) > 1 && ofOneName(matches) {
			if matches, err = preferPodsThatAre(r, matches); err != nil {
				return none, err
			}
		}
		if len(matches) == 1 {
			return matches[0], nil
		}
		e := fault.New(fault.Conflict, "endpoint %s is ambiguous, %d endpoints match", text, len(matches))
		for _, ep := range matches[:min(len(matches), 10)] {
			e = e.WithDetails(fmt.Sprintf("endpoint %s on node %s, addresses %s", ep.ID, ep.HomingHost,
				strings.Trim(ep.IPAddress+", "+ep.IPv6Address, ", ")))
		}
		return none, e
	}
	return none, objects.NotFound("endpoint")
}

func readEndpoints(r ledger.Reader, keys []string) (all []mastercfg.CfgEndpointState, err error) {
	for _, key := range keys {
		ep, err := ledger.Read[mastercfg.CfgEndpointState](r, key)
		if err != nil {
			return nil, err
		}
		all = append(all, ep)
	}
	return all, nil
}

// ofOneName reports whether endpoints are of pods of one namespace and name.
func ofOneName(all []mastercfg.CfgEndpointState) bool {
	first := all[0]
	return !slices.ContainsFunc(all, func(ep mastercfg.CfgEndpointState) bool {
		return ep.PodUID == "" || ep.PodNamespace != first.PodNamespace || ep.EPCommonName != first.EPCommonName
	})
}

// preferPodsThatAre returns the endpoints whose pod Kubernetes has on their node, or all if there is none.
func preferPodsThatAre(r ledger.Reader, all []mastercfg.CfgEndpointState) ([]mastercfg.CfgEndpointState, error) {
	var are []mastercfg.CfgEndpointState
	for _, ep := range all {
		switch _, err := ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey(ep.HomingHost, ep.PodUID)); {
		case err == nil:
			are = append(are, ep)
		case !fault.Is(err, fault.NotFound):
			return nil, err
		}
	}
	if len(are) == 0 {
		return all, nil
	}
	return are, nil
}

// lookupOneOf is lookupEndpoint for a request with several names: a refusal has the one that is not found.
func lookupOneOf(r ledger.Reader, sees func(networkID string) bool, name string) (mastercfg.CfgEndpointState, error) {
	ep, err := lookupEndpoint(r, sees, name)
	if fault.Is(err, fault.NotFound) {
		err = fault.As(err).WithDetails("endpoint " + strconv.Quote(name))
	}
	return ep, err
}

// seesNetworks returns whether the caller may see the endpoints of a
// network. For a caller that may see all endpoints no network is read.
func seesNetworks(caller *auth.Caller, r ledger.Reader) (func(networkID string) bool, error) {
	tenants, all, err := caller.Visible(r, rights.RunTime)
	return func(networkID string) bool { return all || slices.Contains(tenants, tenantOfEndpoint(r, networkID)) }, err
}

// tenantOfEndpoint returns the tenant of an endpoint's network; empty if the network was deleted.
func tenantOfEndpoint(r ledger.Reader, networkID string) string {
	network, err := master.GetNetwork(r, networkID)
	if err != nil {
		return ""
	}
	return network.Tenant
}

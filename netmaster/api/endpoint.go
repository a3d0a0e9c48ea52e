package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// endpointsBy are run-time views of endpoints by some id.
type endpointsBy map[string][]contivmodel.EndpointOper

// endpointsOf collects the endpoints of networks, by network and by group.
func endpointsOf(r ledger.Reader, networks ...string) (byNetwork, byGroup endpointsBy, err error) {
	byNetwork, byGroup = endpointsBy{}, endpointsBy{}
	for _, id := range networks {
		all, err := master.EndpointsOf(r, id)
		if err != nil {
			return nil, nil, err
		}
		for i := range all {
			oper := endpointOper(&all[i])
			byNetwork[id] = append(byNetwork[id], oper)
			if group := all[i].EndpointGroupKey; group != "" {
				byGroup[group] = append(byGroup[group], oper)
			}
		}
	}
	return byNetwork, byGroup, nil
}

func endpointOper(ep *mastercfg.CfgEndpointState) contivmodel.EndpointOper {
	return contivmodel.EndpointOper{
		Network: ep.NetID, EndpointID: ep.EndpointID, ContainerID: ep.ContainerID, ContainerName: ep.EPCommonName,
		ServiceName: ep.ServiceName, EndpointGroupID: ep.EndpointGroupID, EndpointGroupKey: ep.EndpointGroupKey,
		IPAddress: []string{ep.IPAddress, ep.IPv6Address}, MacAddress: ep.MacAddress, HomingHost: ep.HomingHost,
		IntfName: ep.IntfName, VtepIP: ep.VtepIP, Labels: fmt.Sprint(ep.Labels),
	}
}

// inspectEndpoint looks an endpoint up by its id, container id or common name.
func (a *API) inspectEndpoint(r *http.Request) (reply, error) {
	text := mux.Vars(r)["key"]
	var ep mastercfg.CfgEndpointState
	err := a.ledger.View(func(reader ledger.Reader) (err error) {
		ep, err = lookupEndpoint(reader, text)
		return err
	})
	if err != nil {
		return reply{}, err
	}
	oper := endpointOper(&ep)
	oper.Key = text
	if oper.VirtualPort, err = a.virtualPort(r, ep.ID); err != nil {
		return reply{}, err
	}
	return reply{body: contivmodel.EndpointInspect{Oper: oper}}, nil
}

// virtualPort is the switch port an agent reports for an endpoint, if it has.
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

// lookupEndpoint prefers an exact match, then a prefix, then any part; the
// match must be the only one of its class.
func lookupEndpoint(r ledger.Reader, text string) (mastercfg.CfgEndpointState, error) {
	all, err := ledger.ReadAll[mastercfg.CfgEndpointState](r, mastercfg.EndpointPrefix)
	if err != nil {
		return mastercfg.CfgEndpointState{}, err
	}
	for _, matches := range []func(name, text string) bool{
		func(name, text string) bool { return name == text }, strings.HasPrefix, strings.Contains,
	} {
		found := matching(all, func(name string) bool { return name != "" && matches(name, text) })
		if len(found) == 1 {
			return found[0], nil
		}
		if len(found) > 1 {
			e := fault.New(fault.Conflict, "endpoint %s is ambiguous, %d endpoints match", text, len(found))
			for _, ep := range found[:min(len(found), 10)] {
				e = e.WithDetails("endpoint " + ep.ID)
			}
			return mastercfg.CfgEndpointState{}, e
		}
	}
	return mastercfg.CfgEndpointState{}, notFound("endpoint")
}

func matching(all []mastercfg.CfgEndpointState, matches func(string) bool) []mastercfg.CfgEndpointState {
	var found []mastercfg.CfgEndpointState
	for _, ep := range all {
		if matches(ep.ID) || matches(ep.EndpointID) || matches(ep.ContainerID) || matches(ep.EPCommonName) {
			found = append(found, ep)
		}
	}
	return found
}

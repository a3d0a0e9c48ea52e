package objects

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/jsonstream"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// endpointsAt returns the run-time views of the endpoints with these keys.
func endpointsAt(r ledger.Reader, keys []string) jsonstream.Array {
	return func(item func(any) error) error {
		for _, key := range keys {
			ep, err := ledger.Read[mastercfg.CfgEndpointState](r, key)
			if err != nil {
				return err
			}
			if err := item(EndpointOper(&ep)); err != nil {
				return err
			}
		}
		return nil
	}
}

// byEndpointID sorts the keys of endpoints by the container's id.
func byEndpointID(r ledger.Reader, keys []string) ([]string, error) {
	names := make(map[string]string, len(keys))
	for _, key := range keys {
		ep, err := ledger.Read[struct{ EndpointID string }](r, key)
		if err != nil {
			return nil, err
		}
		names[key] = ep.EndpointID
	}
	return slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(strings.Compare(names[a], names[b]), strings.Compare(a, b))
	}), nil
}

// EndpointOper returns the run-time view of an endpoint.
func EndpointOper(ep *mastercfg.CfgEndpointState) contivmodel.EndpointOper {
	return contivmodel.EndpointOper{
		Network: ep.NetID, EndpointID: ep.EndpointID, ContainerID: ep.ContainerID, ContainerName: ep.EPCommonName, PodNamespace: ep.PodNamespace,
		ServiceName: ep.ServiceName, EndpointGroupID: ep.EndpointGroupID, EndpointGroupKey: ep.EndpointGroupKey,
		IPAddress: []string{ep.IPAddress, ep.IPv6Address}, MacAddress: ep.MacAddress, HomingHost: ep.HomingHost,
		IntfName: ep.IntfName, VtepIP: ep.VtepIP, Labels: fmt.Sprint(ep.Labels),
	}
}

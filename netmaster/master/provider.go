package master

import (
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// A provider is an endpoint whose container runs: its record has the container from the start event until the end
// event, or until the endpoint is deleted. The labels of the start event stay. Nothing else is stored, so that the
// list of a service can be derived from the endpoints at any time, except draining ones: a provider that is no
// longer selected while its container still runs keeps its connections and gets no new ones, until the container
// stops.

// StartContainer records the start of an endpoint's container, as reported by the container runtime.
func StartContainer(tx *ledger.Tx, endpointID string, req *mastercfg.UpdateEndpointRequest) error {
	ep, err := ledger.Read[mastercfg.CfgEndpointState](tx, mastercfg.EndpointPrefix+endpointID)
	if err != nil {
		return byName("endpoint", endpointID, err)
	}
	before := ep
	ep.Labels, ep.ContainerID, ep.EPCommonName = req.Labels, req.ContainerID, req.EPCommonName
	if err := putEndpoint(tx, &ep); err != nil {
		return err
	}
	return moveProvider(tx, &before, &ep)
}

// StopContainer removes a container from the endpoints of a host that have it (of all hosts if that is empty),
// and reports whether it was known.
func StopContainer(tx *ledger.Tx, containerID, host string) (known bool, err error) {
	stopped := slices.DeleteFunc(readFound(tx, cidTerm+containerID), func(ep mastercfg.CfgEndpointState) bool {
		return host != "" && ep.HomingHost != host
	})
	for _, before := range stopped {
		ep := before
		ep.ContainerID = ""
		if err := putEndpoint(tx, &ep); err != nil {
			return true, err
		}
		if err := moveProvider(tx, &before, &ep); err != nil {
			return true, err
		}
	}
	return len(stopped) > 0, nil
}

// HostsOf returns the hosts of the endpoints of a container.
func HostsOf(r ledger.Reader, containerID string) (hosts []string) {
	for _, ep := range readFound(r, cidTerm+containerID) {
		hosts = append(hosts, ep.HomingHost)
	}
	return hosts
}

// moveProvider removes an endpoint from the services that selected its former record and adds it to those that
// select the new one; after is nil when it is deleted.
func moveProvider(tx *ledger.Tx, before, after *mastercfg.CfgEndpointState) error {
	if !runs(before) && !runs(after) {
		return nil
	}
	net, err := GetNetwork(tx, before.NetID)
	if err != nil {
		return ignoreNotFound(err) // the reconciler removes it
	}
	return each(tx, mastercfg.ModelKey("serviceLB", net.Tenant+":"), func(_ string, s contivmodel.ServiceLB) error {
		selectors, err := parseSelectors(s.Selectors)
		if err != nil {
			return nil // no such service can be created
		}
		rec, err := GetService(tx, mastercfg.ServiceID(s.TenantName, s.ServiceName))
		if err != nil {
			return ignoreCorrupt(ignoreNotFound(err)) // the reconciler creates it
		}
		for _, a := range providing(&rec, before) {
			if err := listProvider(tx, rec.ID, a, selectedBy(selectors, after), runs(after)); err != nil {
				return err
			}
		}
		return nil
	})
}

// providing returns the addresses of an endpoint that can be behind a service: those of the IP families in
// which the service has addresses.
func providing(rec *mastercfg.CfgServiceLBState, ep *mastercfg.CfgEndpointState) (addresses []string) {
	has := map[bool]bool{true: rec.IPAddress != "", false: rec.IPv6Address != ""}
	for _, external := range rec.ExternalIPs {
		has[!strings.Contains(external, ":")] = true
	}
	for _, text := range []string{ep.IPAddress, ep.IPv6Address} {
		if text != "" && has[!strings.Contains(text, ":")] {
			addresses = append(addresses, text)
		}
	}
	return addresses
}

// listProvider adds an address to those behind a service, marks it as draining if it was one and still runs, or
// removes it.
func listProvider(tx *ledger.Tx, serviceID, address string, selected, runs bool) error {
	key := mastercfg.ProviderKey(serviceID, address)
	_, listed := tx.Get(key)
	if !selected && !(listed && runs) {
		if listed {
			tx.Delete(key)
		}
		return nil
	}
	return ledger.Write(tx, key, mastercfg.SvcProvider{ID: address, ServiceName: serviceID, Providers: []string{address}, Draining: !selected})
}

// Containers returns the endpoints of a tenant whose container runs.
func Containers(r ledger.Reader, tenant string) ([]mastercfg.CfgEndpointState, error) {
	var all []mastercfg.CfgEndpointState
	err := each(r, mastercfg.ModelKey("network", tenant+":"), func(_ string, n contivmodel.Network) error {
		for _, ep := range readFound(r, runningTerm+mastercfg.NetworkID(n.TenantName, n.NetworkName)) {
			if runs(&ep) {
				all = append(all, ep)
			}
		}
		return nil
	})
	return all, err
}

// readFound reads the readable endpoints that are indexed under a term.
func readFound(r ledger.Reader, term string) []mastercfg.CfgEndpointState {
	var all []mastercfg.CfgEndpointState
	found(r, term, func(key string) bool {
		if ep, err := ledger.Read[mastercfg.CfgEndpointState](r, key); err == nil {
			all = append(all, ep)
		}
		return true
	})
	return all
}

// Selected returns those of the endpoints that a service selects.
func Selected(rec *mastercfg.CfgServiceLBState, all []mastercfg.CfgEndpointState) []mastercfg.CfgEndpointState {
	var selected []mastercfg.CfgEndpointState
	for i := range all {
		if selectedBy(rec.Selectors, &all[i]) {
			selected = append(selected, all[i])
		}
	}
	return selected
}

func selectedBy(selectors map[string]string, ep *mastercfg.CfgEndpointState) bool {
	return provides(ep) && selects(selectors, ep.Labels)
}

func provides(ep *mastercfg.CfgEndpointState) bool { return runs(ep) && len(ep.Labels) > 0 }

// runs reports whether an endpoint has a running container and can accept connections.
func runs(ep *mastercfg.CfgEndpointState) bool {
	return ep != nil && ep.ContainerID != "" && (ep.IPAddress != "" || ep.IPv6Address != "")
}

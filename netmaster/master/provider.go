package master

import (
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// A provider is an endpoint whose container runs: its record has the container
// from the event that told of the start until the one that tells of the end, or
// until it is deleted. The labels that came with the start stay. Nothing else
// is remembered, so that the list of a service can be made anew from the
// endpoints at any time, but for those that drain: a provider that is selected no
// longer while its container goes on running keeps its connections and gets no new
// ones, until the container stops.

// StartContainer records what a container runtime told about the container of
// an endpoint.
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

// StopContainer takes a container out of the endpoints of a host that it has, or of all hosts if that is
// empty, and tells whether it was known.
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

// HostsOf are the hosts of the endpoints that a container has.
func HostsOf(r ledger.Reader, containerID string) (hosts []string) {
	for _, ep := range readFound(r, cidTerm+containerID) {
		hosts = append(hosts, ep.HomingHost)
	}
	return hosts
}

// moveProvider takes an endpoint out of the services that selected it as it
// was and adds it to those that select it as it is; after is nil once it is gone.
func moveProvider(tx *ledger.Tx, before, after *mastercfg.CfgEndpointState) error {
	if !runs(before) && !runs(after) {
		return nil
	}
	net, err := GetNetwork(tx, before.NetID)
	if err != nil {
		return ignoreNotFound(err) // the reconciler takes it out
	}
	return each(tx, mastercfg.ModelKey("serviceLB", net.Tenant+":"), func(_ string, s contivmodel.ServiceLB) error {
		selectors, err := parseSelectors(s.Selectors)
		if err != nil {
			return nil // no such service can be made
		}
		rec, err := GetService(tx, mastercfg.ServiceID(s.TenantName, s.ServiceName))
		if err != nil {
			return ignoreCorrupt(ignoreNotFound(err)) // the reconciler makes it
		}
		for _, a := range providing(&rec, before) {
			if err := listProvider(tx, rec.ID, a, selectedBy(selectors, after), runs(after)); err != nil {
				return err
			}
		}
		return nil
	})
}

// providing are the addresses of an endpoint that can be behind a service: those of the
// versions of IP in which that has addresses.
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

// listProvider adds an address to those behind a service, lets it drain if it was one and
// still runs, or takes it out.
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

// Containers are the endpoints of a tenant whose container runs.
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

// readFound reads the endpoints that are indexed under a term; only readable ones are.
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

// Selected are those of the endpoints that a service selects.
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

// runs tells whether an endpoint has a running container and can be given connections.
func runs(ep *mastercfg.CfgEndpointState) bool {
	return ep != nil && ep.ContainerID != "" && (ep.IPAddress != "" || ep.IPv6Address != "")
}

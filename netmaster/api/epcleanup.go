package api

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/objects"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Cleaning up removes endpoints that nothing else will delete, because their container is gone and its runtime
// did not report that. An operator names them by their network, by their group, or one of them by its whole id.
//
// First the node of an endpoint is asked whether a container uses it. Only if none does, or if the node is no
// longer registered, the endpoint is deleted from the state: its address may be assigned to another endpoint
// next, and must not be in use twice. The node then removes its flows, and its port. If a node does not answer,
// the others are cleaned up all the same; the answer is then an error that names the remaining endpoints.
func (a *API) cleanUp(r *http.Request) (rest.Reply, error) {
	vars := mux.Vars(r)
	tenant, category, id := vars["tenant"], vars["category"], vars["id"]
	var stuck []mastercfg.CfgEndpointState
	err := a.search(r.Context(), func(reader ledger.Reader) (err error) {
		stuck, err = stuckEndpoints(reader, auth.CallerFrom(r.Context()), tenant, category, id)
		return err
	})
	if err != nil {
		return rest.Reply{}, err
	}
	slices.SortStableFunc(stuck, func(a, b mastercfg.CfgEndpointState) int { return cmp.Compare(a.HomingHost, b.HomingHost) })
	var told []string
	failed := 0
	var at agentAt
	var registered bool
	var silent error // host that does not answer; it is not called again
	for i, ep := range stuck {
		if i == 0 || ep.HomingHost != stuck[i-1].HomingHost || !registered && silent == nil { // the host may have registered meanwhile
			at, registered, silent = a.agentOf(r.Context(), mastercfg.AgentVTEPService, ep.HomingHost)
		}
		err := silent
		if err == nil {
			err = a.reclaim(r.Context(), at, registered, &ep)
		}
		if fault.Is(err, fault.Unavailable) {
			silent = err
		}
		if err == nil {
			continue
		}
		if failed++; failed <= failuresTold {
			told = append(told, fmt.Sprintf("endpoint %s: %v", ep.ID, err))
		}
	}
	if failed > len(told) {
		told = append(told, fmt.Sprintf("and %d more", failed-len(told)))
	}
	if failed > 0 {
		a.config.Log.WithField("failed", told).Warn("endpoints could not be cleaned up")
		return rest.Reply{}, fault.New(fault.Internal, "%d of %d endpoints not cleaned up: %s", failed, len(stuck), strings.Join(told, "; ")).
			WithDetails(told...)
	}
	return rest.Reply{Body: rest.Text(fmt.Sprintf("Received request to cleanup %s %s of tenant %s: %d endpoints deleted",
		category, id, tenant, len(stuck)))}, nil
}

const (
	failuresTold = 20  // remaining endpoints that an answer names
	userShown    = 256 // bytes of a node's text about the container that uses an endpoint
)

// stuckEndpoints returns the endpoints that an operator has named; fault.NotFound if there is nothing with the name.
func stuckEndpoints(r ledger.Reader, caller *auth.Caller, tenant, category, id string) ([]mastercfg.CfgEndpointState, error) {
	var matches func(*mastercfg.CfgEndpointState) bool
	known := false
	switch category {
	case "net":
		networkID := mastercfg.NetworkID(tenant, id)
		matches = func(ep *mastercfg.CfgEndpointState) bool {
			return ep.NetID == networkID && inTenant(r, caller, ep, tenant)
		}
		known = master.Exists(r, "network", tenant+":"+id)
	case "group":
		groupID := mastercfg.EndpointGroupID(tenant, id)
		matches = func(ep *mastercfg.CfgEndpointState) bool { return ep.EndpointGroupKey == groupID }
		known = master.Exists(r, "endpointGroup", tenant+":"+id)
	default:
		matches = func(ep *mastercfg.CfgEndpointState) bool {
			return (ep.ID == id || ep.EndpointID == id || ep.ContainerID == id) && inTenant(r, caller, ep, tenant)
		}
	}
	var found []mastercfg.CfgEndpointState
	err := ledger.ReadEach(r, mastercfg.EndpointPrefix, func(_ string, ep mastercfg.CfgEndpointState) error {
		if matches(&ep) {
			found = append(found, ep)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 && !known {
		return nil, objects.NotFound(map[string]string{"net": "network", "group": "endpointGroup", "ep": "endpoint"}[category])
	}
	return found, nil
}

// inTenant reports whether an endpoint belongs to a tenant. If its network was
// deleted, the network's id is ambiguous between tenants: "web.x" of blue and "web"
// of x.blue are the same. Such endpoints are left to operators of the cluster.
func inTenant(r ledger.Reader, caller *auth.Caller, ep *mastercfg.CfgEndpointState, tenant string) bool {
	net, err := master.GetNetwork(r, ep.NetID)
	if err != nil {
		return strings.HasSuffix(ep.NetID, mastercfg.NetworkID(tenant, "")) && caller.May(r, auth.Need{Verb: rights.Change, Area: rights.Operations})
	}
	return net.Tenant == tenant
}

// reclaim deletes one endpoint, unless its registered node uses it.
func (a *API) reclaim(ctx context.Context, at agentAt, registered bool, ep *mastercfg.CfgEndpointState) error {
	if registered {
		answer, err := a.nodes.get(ctx, at, "/inspect/endpoint/"+url.PathEscape(ep.ID), shortAnswer)
		switch {
		case err == nil:
			return fault.New(fault.InUse, "host %s: a container uses it: %s", ep.HomingHost, bytes.TrimSpace(answer[:min(len(answer), userShown)]))
		case !fault.Is(err, fault.NotFound):
			return fmt.Errorf("host %s: %w", ep.HomingHost, err)
		}
	}
	var deleted mastercfg.CfgEndpointState
	_, err := a.ledger.Update(ctx, func(tx *ledger.Tx) (err error) {
		if deleted, err = master.DeleteEndpoint(tx, ep.ID); err != nil || registered {
			return err
		}
		return master.NodeLeft(tx, ep.HomingHost)
	})
	if fault.Is(err, fault.NotFound) {
		return nil // deleted meanwhile
	}
	if err == nil {
		a.cooldown.Freed(&deleted)
	}
	return err
}

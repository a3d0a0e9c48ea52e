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

// Cleaning up takes away endpoints that nobody will ever delete, because their
// container is gone and its runtime forgot to say so. An operator names them,
// by their network, by their group, or one of them, with its whole id.
//
// The node of an endpoint is asked first whether a container uses it. Only when
// none does, or the node is no longer registered, is the endpoint deleted from
// the state: its address goes to the next who asks, and must not be in use
// twice. The node takes its flows away when it sees that, and then its port. A
// node that does not answer does not keep the rest from being cleaned up; the
// answer is then an error that names what is left.
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
	var silent error // of a host that does not answer, which is not asked again
	for i, ep := range stuck {
		if i == 0 || ep.HomingHost != stuck[i-1].HomingHost || !registered && silent == nil { // it may have registered meanwhile
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
	failuresTold = 20  // endpoints that are left, which an answer names
	userShown    = 256 // bytes of what a node says of who uses an endpoint
)

// stuckEndpoints finds the endpoints an operator names; fault.NotFound if there
// is nothing of the name at all.
func stuckEndpoints(r ledger.Reader, q *auth.Caller, tenant, category, id string) ([]mastercfg.CfgEndpointState, error) {
	var matches func(*mastercfg.CfgEndpointState) bool
	known := false
	switch category {
	case "net":
		networkID := mastercfg.NetworkID(tenant, id)
		matches = func(ep *mastercfg.CfgEndpointState) bool { return ep.NetID == networkID && inTenant(r, q, ep, tenant) }
		known = master.Exists(r, "network", tenant+":"+id)
	case "group":
		groupID := mastercfg.EndpointGroupID(tenant, id)
		matches = func(ep *mastercfg.CfgEndpointState) bool { return ep.EndpointGroupKey == groupID }
		known = master.Exists(r, "endpointGroup", tenant+":"+id)
	default:
		matches = func(ep *mastercfg.CfgEndpointState) bool {
			return (ep.ID == id || ep.EndpointID == id || ep.ContainerID == id) && inTenant(r, q, ep, tenant)
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

// inTenant tells whether an endpoint is of a tenant. That of a network which is gone has only the network's id to go by,
// which may be that of a network of another tenant: "web.x" of blue and "web" of x.blue. So these are left to operators of the cluster.
func inTenant(r ledger.Reader, q *auth.Caller, ep *mastercfg.CfgEndpointState, tenant string) bool {
	net, err := master.GetNetwork(r, ep.NetID)
	if err != nil {
		return strings.HasSuffix(ep.NetID, mastercfg.NetworkID(tenant, "")) && q.May(r, auth.Need{Verb: rights.Change, Area: rights.Operations})
	}
	return net.Tenant == tenant
}

// reclaim deletes one endpoint that its node, if it is registered, does not use.
func (a *API) reclaim(ctx context.Context, at agentAt, registered bool, ep *mastercfg.CfgEndpointState) error {
	if registered {
		answer, err := a.nodes.call(ctx, http.MethodGet, at, "/inspect/endpoint/"+url.PathEscape(ep.ID), shortAnswer)
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

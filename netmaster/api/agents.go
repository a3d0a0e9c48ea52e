package api

import (
	"cmp"
	"context"
	"slices"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// An agent speaks for its own host, in tenants that it may serve: with a stolen key of a node
// no endpoint of another one can be moved. Other callers that may use the routes of agents, such
// as root of a netmaster's machine, speak for all hosts.

// checkIsHost refuses an agent whose request is about another host.
func checkIsHost(ctx context.Context, host string) error {
	q := auth.CallerFrom(ctx)
	if q == nil || q.Who.Kind != identity.Node || host == q.Who.Name {
		return nil
	}
	return q.Deny("%s may not speak for host %.64q", q.Who, host)
}

// checkServesTenant refuses an agent whose request is in a tenant that its node may not serve; empty: there is no tenant yet.
func checkServesTenant(ctx context.Context, r ledger.Reader, tenant string) error {
	q := auth.CallerFrom(ctx)
	if q == nil || q.Who.Kind != identity.Node {
		return nil
	}
	joined, err := ledger.ReadShared[mastercfg.Joined](r, mastercfg.NodePrefix+q.Who.Name)
	if fault.Is(err, fault.NotFound) {
		return nil // which the request was judged by
	}
	if err == nil && tenant != "" && !joined.Serves(tenant) {
		return q.Deny("%s may not serve tenant %.64q: the token that it joined with allows %q", q.Who, tenant, joined.Tenants)
	}
	return err
}

// speaksForEndpoint refuses an agent that asks for something about an endpoint of another
// host. One that there is not is nobody's.
func speaksForEndpoint(ctx context.Context, r ledger.Reader, id string) error {
	ep, err := ledger.Read[mastercfg.CfgEndpointState](r, mastercfg.EndpointPrefix+id)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err == nil {
		err = checkIsHost(ctx, ep.HomingHost)
	}
	return err
}

// mayRelease refuses an agent that gives back an endpoint of another host, or asks for one in a tenant that it may not
// serve. What is its own it gives back wherever it is: an infra network that is gone, of whose id it cannot tell the
// tenant, and a tenant that it may serve no more.
func mayRelease(ctx context.Context, r ledger.Reader, tenant, id string) error {
	if q := auth.CallerFrom(ctx); q != nil && q.Who.Kind == identity.Node {
		ep, err := ledger.Read[mastercfg.CfgEndpointState](r, mastercfg.EndpointPrefix+id)
		if err == nil && ep.HomingHost == q.Who.Name {
			return nil
		}
	}
	return cmp.Or(checkServesTenant(ctx, r, tenant), speaksForEndpoint(ctx, r, id))
}

// speaksForContainer is the host whose endpoints an agent may say have lost a container; empty: all hosts, as the caller
// is no agent. Another host may claim the same container, and then it loses only its own. One that only others have is not the agent's.
func speaksForContainer(ctx context.Context, r ledger.Reader, containerID string) (host string, err error) {
	q := auth.CallerFrom(ctx)
	if q == nil || q.Who.Kind != identity.Node {
		return "", nil
	}
	hosts := master.HostsOf(r, containerID)
	if len(hosts) == 0 || slices.Contains(hosts, q.Who.Name) {
		return q.Who.Name, nil
	}
	return "", checkIsHost(ctx, hosts[0])
}

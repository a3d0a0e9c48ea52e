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

// An agent acts for its own host only, in the tenants that its node may serve: a
// stolen key of a node cannot move endpoints of other nodes. Other callers that may
// use the agents' routes, such as root on a netmaster's machine, act for all hosts.

// checkIsHost refuses an agent whose request is about another host.
func checkIsHost(ctx context.Context, host string) error {
	caller := auth.CallerFrom(ctx)
	if caller == nil || caller.Who.Kind != identity.Node || host == caller.Who.Name {
		return nil
	}
	return caller.Deny("%s may not speak for host %.64q", caller.Who, host)
}

// checkServesTenant refuses an agent whose request is in a tenant
// that its node may not serve. An empty tenant is accepted.
func checkServesTenant(ctx context.Context, r ledger.Reader, tenant string) error {
	caller := auth.CallerFrom(ctx)
	if caller == nil || caller.Who.Kind != identity.Node {
		return nil
	}
	joined, err := ledger.ReadShared[mastercfg.Joined](r, mastercfg.NodePrefix+caller.Who.Name)
	if fault.Is(err, fault.NotFound) {
		return nil // the request was authenticated by the record, which is gone now
	}
	if err == nil && tenant != "" && !joined.Serves(tenant) {
		return caller.Deny("%s may not serve tenant %.64q: the token that it joined with allows %q", caller.Who, tenant, joined.Tenants)
	}
	return err
}

// speaksForEndpoint refuses an agent whose request is about an endpoint
// of another host. An endpoint that does not exist is accepted.
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

// mayRelease refuses an agent that releases an endpoint of another host, or an endpoint in a tenant that it may
// not serve. It may always release its own endpoints: in a deleted infra network, whose id does not reveal the
// tenant, and in a tenant that it may no longer serve.
func mayRelease(ctx context.Context, r ledger.Reader, tenant, id string) error {
	if caller := auth.CallerFrom(ctx); caller != nil && caller.Who.Kind == identity.Node {
		ep, err := ledger.Read[mastercfg.CfgEndpointState](r, mastercfg.EndpointPrefix+id)
		if err == nil && ep.HomingHost == caller.Who.Name {
			return nil
		}
	}
	return cmp.Or(checkServesTenant(ctx, r, tenant), speaksForEndpoint(ctx, r, id))
}

// speaksForContainer returns the host whose endpoints an agent may report as without container; empty: all
// hosts, for a caller that is not an agent. Another host may claim the same container, and then only its own
// endpoint is affected. A container that only other hosts have is refused.
func speaksForContainer(ctx context.Context, r ledger.Reader, containerID string) (host string, err error) {
	caller := auth.CallerFrom(ctx)
	if caller == nil || caller.Who.Kind != identity.Node {
		return "", nil
	}
	hosts := master.HostsOf(r, containerID)
	if len(hosts) == 0 || slices.Contains(hosts, caller.Who.Name) {
		return caller.Who.Name, nil
	}
	return "", checkIsHost(ctx, hosts[0])
}

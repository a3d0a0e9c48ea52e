package api

import (
	"context"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// sandboxesOfPod is how many endpoints a pod may have at once on its node. It uses one, but those of sandboxes
// that ended without a DEL remain until the node's agent has found that their links are gone.
const sandboxesOfPod = 8

// staticEndpoints is how many endpoints of static pods a node
// may have; the next one needs a pod that the leader has placed.
const staticEndpoints = 64

// checkPlacement refuses, under Kubernetes, an agent's request for an endpoint in a network in which its node
// has no pod: so a stolen key of a node gives no access to another tenant or its state.
//
// The leader's record of the pod decides, also about names and group: an agent that attaches a recreated pod may know
// the former one. Without a record, an agent may request the node's own endpoints in infra networks, endpoints that it
// already has, and in tenant default those of static pods that netmaster does not know (checkUnknownPod).
func (a *API) checkPlacement(ctx context.Context, r ledger.Reader, req *mastercfg.CreateEndpointRequest) error {
	caller := auth.CallerFrom(ctx)
	if caller == nil || caller.Who.Kind != identity.Node || a.config.ClusterMode != "kubernetes" {
		return nil
	}
	id := mastercfg.EndpointID(mastercfg.NetworkID(req.TenantName, req.NetworkName), req.ConfigEP.Container)
	if _, there := r.Get(mastercfg.EndpointPrefix + id); there {
		return nil // it is authorized as an existing endpoint
	}
	pod, err := ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey(caller.Who.Name, req.PodUID))
	known := err == nil
	switch {
	case known && pod.Tenant == req.TenantName && pod.Network == req.NetworkName:
		if has := master.EndpointsOfPod(r, caller.Who.Name, pod.UID); has >= sandboxesOfPod {
			return caller.Deny("pod %s has %d endpoints on %s, and so many at most", pod.Pod(), has, caller.Who)
		}
		req.ConfigEP.ServiceName, req.PodNamespace, req.EPCommonName = pod.Group, pod.Namespace, pod.Name
		return nil
	case !known && !fault.Is(err, fault.NotFound):
		return err
	}
	network, err := master.Get[contivmodel.Network](r, req.TenantName+":"+req.NetworkName, nil)
	if err == nil && network != nil && network.NwType == "infra" && req.ConfigEP.Container == caller.Who.Name {
		req.ConfigEP = mastercfg.ConfigEP{Container: req.ConfigEP.Container, Host: req.ConfigEP.Host}
		req.PodNamespace, req.PodUID, req.EPCommonName = "", "", ""
		return nil
	}
	if !known && req.TenantName == mastercfg.DefaultTenant {
		return checkUnknownPod(caller, r, req)
	}
	return caller.Deny("%s may not have an endpoint in network %.64q of tenant %.64q: netmaster knows no pod of the node that belongs there", caller.Who, req.NetworkName, req.TenantName)
}

// checkUnknownPod checks a request in tenant default for a pod without a record of the leader. Agents wait for
// the record, except for static pods while the API server is down: kubelet's names of these, and sandbox names
// of container runtimes, cannot be names of other objects. Such a pod has no group before its mirror pod
// exists, whose labels the leader follows. A group that exists, but not in this network, stays in the request
// and is refused later. A requested address may be reserved for another pod, so the request has to wait for the
// mirror pod, as does an endpoint that the store has lost.
func checkUnknownPod(caller *auth.Caller, r ledger.Reader, req *mastercfg.CreateEndpointRequest) error {
	sandbox, _, _ := strings.Cut(req.ConfigEP.Container, "@")
	has := master.StaticEndpoints(r, caller.Who.Name)
	var refusal error
	switch pod := req.PodNamespace + "/" + req.EPCommonName; {
	case !mastercfg.IsHash(req.PodUID) || !strings.HasSuffix(req.EPCommonName, "-"+caller.Who.Name) || !mastercfg.IsHash(sandbox):
		refusal = caller.Deny("%s may not have endpoint %.64q in tenant %s for pod %.128q (UID %.64q): netmaster knows no such pod of the node, and it is no static one",
			caller.Who, req.ConfigEP.Container, req.TenantName, pod, req.PodUID)
	case req.ConfigEP.IPAddress != "" || req.ConfigEP.IPv6Address != "":
		refusal = caller.Deny("%s may not choose address %.64q for pod %.128q: netmaster does not know its mirror pod yet, which says whether it has it",
			caller.Who, strings.Trim(req.ConfigEP.IPAddress+" "+req.ConfigEP.IPv6Address, " "), pod)
	case has >= staticEndpoints:
		refusal = caller.Deny("%s has %d endpoints of static pods, and gets one more, of pod %.128q, only when netmaster knows its mirror pod: let the API server be reached, or take static pods away",
			caller.Who, has, pod)
	}
	if refusal != nil || req.ConfigEP.ServiceName == "" {
		return refusal
	}
	group, err := master.GetGroup(r, mastercfg.EndpointGroupID(req.TenantName, req.ConfigEP.ServiceName))
	if err == nil && group.NetworkName == req.NetworkName {
		req.ConfigEP.ServiceName = ""
	}
	return nil
}

// notOfNodes refuses, under Kubernetes, requests that agents make in other clusters only: with a stolen key of
// a node they would be possible in each tenant that the node serves.
func (a *API) notOfNodes(ctx context.Context, what, why string) error {
	caller := auth.CallerFrom(ctx)
	if caller == nil || caller.Who.Kind != identity.Node || a.config.ClusterMode != "kubernetes" {
		return nil
	}
	return caller.Deny("%s may not %s: under Kubernetes %s", caller.Who, what, why)
}

// allocates refuses, under Kubernetes, an agent that allocates or releases addresses on their own. Pods get
// theirs with their endpoints; other allocations could exhaust a pool.
func (a *API) allocates(ctx context.Context) error {
	return a.notOfNodes(ctx, "allocate or release addresses", "they come with endpoints")
}

// containers refuses, under Kubernetes, an agent's report about a container: with a stolen key of a node it
// could rename the endpoint of a pod, and so keep it out of the group that the leader moves it to.
func (a *API) containers(ctx context.Context) error {
	return a.notOfNodes(ctx, "tell of containers", "the leader says what is in an endpoint")
}

// labels refuses, under Kubernetes, labels of an agent that
// would make an endpoint a provider of the tenant's services.
func (a *API) labels(ctx context.Context, labels map[string]string) error {
	if len(labels) == 0 {
		return nil
	}
	return a.notOfNodes(ctx, "give an endpoint labels", "services select pods")
}

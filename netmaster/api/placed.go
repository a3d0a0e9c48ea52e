package api

import (
	"context"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/asking"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// sandboxesOfPod is how many endpoints a pod may have at once on its node. It has one, but those of sandboxes that
// ended without a DEL stay until the node's agent has found that their links are gone.
const sandboxesOfPod = 8

// placed refuses, under Kubernetes, an agent that asks for an endpoint where no pod of its node
// belongs: who has stolen the key of a node gets into no tenant by himself, and so reads none.
//
// What the leader has written about a pod counts, also for the group: an agent that attaches a pod anew may know
// the one before. Beside that there are the node's own endpoints in infra networks, endpoints that it has already,
// and those of tenant default, where static pods belong that netmaster knows nothing of.
func (a *API) placed(ctx context.Context, r ledger.Reader, req *mastercfg.CreateEndpointRequest) error {
	q := asking.Of(ctx)
	if q == nil || q.Who.Kind != identity.Node || a.config.ClusterMode != "kubernetes" {
		return nil
	}
	id := mastercfg.EndpointID(mastercfg.NetworkID(req.TenantName, req.NetworkName), req.ConfigEP.Container)
	if _, there := r.Get(mastercfg.EndpointPrefix + id); there {
		return nil // it is judged by where it is
	}
	pod, err := ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey(q.Who.Name, req.PodUID))
	switch {
	case err == nil && pod.Tenant == req.TenantName && pod.Network == req.NetworkName:
		if has := master.EndpointsOfPod(r, q.Who.Name, pod.UID); has >= sandboxesOfPod {
			return q.Deny("pod %s has %d endpoints on %s, and so many at most", pod.Pod(), has, q.Who)
		}
		req.ConfigEP.ServiceName = pod.Group
		return nil
	case err != nil && !fault.Is(err, fault.NotFound):
		return err
	case req.TenantName == mastercfg.DefaultTenant:
		return nil
	}
	network, err := master.Get[contivmodel.Network](r, req.TenantName+":"+req.NetworkName, nil)
	if err == nil && network != nil && network.NwType == "infra" && req.ConfigEP.Container == q.Who.Name {
		return nil
	}
	return q.Deny("%s may not have an endpoint in network %.64q of tenant %.64q: netmaster knows no pod of the node that belongs there", q.Who, req.NetworkName, req.TenantName)
}

// notOfNodes refuses, under Kubernetes, what agents ask for in other clusters only: who has stolen the key of a node
// would have it of every tenant that the node serves.
func (a *API) notOfNodes(ctx context.Context, what, why string) error {
	q := asking.Of(ctx)
	if q == nil || q.Who.Kind != identity.Node || a.config.ClusterMode != "kubernetes" {
		return nil
	}
	return q.Deny("%s may not %s: under Kubernetes %s", q.Who, what, why)
}

// allocates refuses, under Kubernetes, an agent that allocates or releases addresses by themselves. Pods
// get theirs with their endpoints; others would take all of a pool.
func (a *API) allocates(ctx context.Context) error {
	return a.notOfNodes(ctx, "allocate or release addresses", "they come with endpoints")
}

// labels refuses, under Kubernetes, an agent that makes an endpoint a provider of services of the tenant by its labels.
func (a *API) labels(ctx context.Context, labels map[string]string) error {
	if len(labels) == 0 {
		return nil
	}
	return a.notOfNodes(ctx, "give an endpoint labels", "services select pods")
}

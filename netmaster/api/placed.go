package api

import (
	"context"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// placed refuses, under Kubernetes, an agent that asks for an endpoint where no pod of its node
// belongs: who has stolen the key of a node gets into no tenant by himself, and so reads none.
//
// What the leader has written about a pod counts. Beside that there are the node's own endpoints
// in infra networks, endpoints that it has already, and those of tenant default, where static
// pods belong that netmaster knows nothing of.
func (a *API) placed(ctx context.Context, r ledger.Reader, req *mastercfg.CreateEndpointRequest) error {
	q := askingOf(ctx)
	if q == nil || q.who.Kind != identity.Node || a.config.ClusterMode != "kubernetes" || req.TenantName == mastercfg.DefaultTenant {
		return nil
	}
	pod, err := ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey(q.who.Name, req.PodUID))
	switch {
	case err == nil && pod.Tenant == req.TenantName && pod.Network == req.NetworkName:
		return nil
	case err != nil && !fault.Is(err, fault.NotFound):
		return err
	}
	id := mastercfg.EndpointID(mastercfg.NetworkID(req.TenantName, req.NetworkName), req.ConfigEP.Container)
	if _, there := r.Get(mastercfg.EndpointPrefix + id); there {
		return nil // it is judged by where it is
	}
	network, err := master.Get[contivmodel.Network](r, req.TenantName+":"+req.NetworkName, nil)
	if err == nil && network != nil && network.NwType == "infra" && req.ConfigEP.Container == q.who.Name {
		return nil
	}
	return q.Deny("%s may not have an endpoint in network %.64q of tenant %.64q: netmaster knows no pod of the node that belongs there", q.who, req.NetworkName, req.TenantName)
}

// allocates refuses, under Kubernetes, an agent that allocates or releases addresses by themselves. Pods
// get theirs with their endpoints; who has stolen the key of a node would take all of every tenant.
func (a *API) allocates(ctx context.Context) error {
	q := askingOf(ctx)
	if q == nil || q.who.Kind != identity.Node || a.config.ClusterMode != "kubernetes" {
		return nil
	}
	return q.Deny("%s may not allocate or release addresses: under Kubernetes they come with endpoints", q.who)
}

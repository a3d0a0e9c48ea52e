package main

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api"
	"github.com/contiv/netplugin/netmaster/k8s"
	"github.com/contiv/netplugin/netmaster/podjoin"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/k8sutils"
)

// follow returns what the daemon does for Kubernetes during a term as leader; nil in other modes. The daemon
// receives it as a function, so that netmaster's packages and their tests are not linked with the client of
// Kubernetes.
func (o *options) follow(cluster *k8s.Config, pods *podjoin.Cluster) func(context.Context, *ledger.Ledger, *api.API, *logrus.Entry) error {
	if o.common.Mode != "kubernetes" {
		return nil
	}
	return func(ctx context.Context, opened *ledger.Ledger, model *api.API, log *logrus.Entry) error {
		if cluster == nil {
			log.Warnf("no API server is named in %s on this machine: pods of Kubernetes are not placed, and cannot start", k8sutils.DefaultPath)
			<-ctx.Done()
			return ctx.Err()
		}
		var publishing sync.WaitGroup
		defer publishing.Wait()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		if pods != nil {
			publishing.Go(func() { pods.Publish(ctx, model.KnownBy, log) })
		}
		config := *cluster
		config.Model, config.Agents, config.ReadyAgents, config.EnforcedPolicies, config.Log = model, model.Agents, model.ReadyAgents, model.EnforcedPolicies, log
		config.KnowAnyPod = model.KnowAnyPod
		controller := k8s.New(config, opened)
		model.Follows(func(ctx context.Context) api.Following { return following(controller.State(ctx)) })
		model.TellNetworkPolicies(func(ctx context.Context, namespace, name string) (api.NetworkPolicy, error) {
			return networkPolicy(controller.NetworkPolicy(ctx, namespace, name))
		})
		model.TellAddresses(func(p api.PodAddress) { controller.TellAddress(p.Namespace, p.Name, p.UID, p.Node, p.Reason, p.Lack) })
		err := controller.Run(ctx)
		if err != nil {
			model.Follows(func(context.Context) api.Following { return api.Following{Problem: err.Error()} })
			model.TellNetworkPolicies(func(context.Context, string, string) (api.NetworkPolicy, error) {
				return api.NetworkPolicy{}, fault.New(fault.Unavailable, "netmaster does not follow the API server: %w", err)
			})
		}
		return err
	}
}

// networkPolicy converts the state of a NetworkPolicy for the API.
func networkPolicy(s k8s.PolicyState, err error) (api.NetworkPolicy, error) {
	p := api.NetworkPolicy{Tenant: s.Tenant}
	for _, n := range s.Nodes {
		p.Nodes = append(p.Nodes, api.NetworkPolicyNode(n))
	}
	return p, err
}

// following converts the state of a controller for the API.
func following(s k8s.State) api.Following {
	f := api.Following{Problem: s.Problem, Waiting: s.Waiting}
	if !s.First.IsZero() {
		f.Behind = int(time.Since(s.First).Seconds())
	}
	for _, t := range s.Troubles {
		f.Troubles = append(f.Troubles, contivmodel.KubernetesTrouble(t))
	}
	return f
}

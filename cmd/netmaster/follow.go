package main

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/api"
	"github.com/contiv/netplugin/netmaster/k8s"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/k8sutils"
)

// follow is what the daemon does of Kubernetes in a term: nil in other modes. The daemon is
// given it and does not know it, so that netmaster's packages and their tests are linked
// without the client of Kubernetes.
func (o *options) follow(cluster *k8s.Config) func(context.Context, *ledger.Ledger, *api.API, *logrus.Entry) error {
	if o.common.Mode != "kubernetes" {
		return nil
	}
	return func(ctx context.Context, opened *ledger.Ledger, model *api.API, log *logrus.Entry) error {
		if cluster == nil {
			log.Warnf("no API server is named in %s on this machine: pods of Kubernetes are not placed, and cannot start", k8sutils.DefaultPath)
			<-ctx.Done()
			return ctx.Err()
		}
		config := *cluster
		config.Model, config.ReadyAgents, config.EnforcedEpoch, config.Log = model, model.ReadyAgents, model.EnforcedEpoch, log
		return k8s.New(config, opened).Run(ctx)
	}
}

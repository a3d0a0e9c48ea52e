package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"strings"

	"github.com/contiv/netplugin/netmaster/daemon"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/netmaster/podjoin"
	"github.com/contiv/netplugin/utils/k8sutils"
)

// inPod returns the client of the Kubernetes that authenticates daemons in pods; nil if no flag requests that. It
// has clients of its own: a stream of bad tokens slows down other joins, but not the leader's work for Kubernetes.
func (o *options) inPod() (*podjoin.Cluster, error) {
	if o.security.podToken == "" {
		return nil, nil
	}
	if o.security.token != "" {
		return nil, fmt.Errorf("--join-token-file, --join-pod-token-file: want one of them at most")
	}
	if o.common.Mode != "kubernetes" || o.apiServer == "" || o.security.dir == "" {
		return nil, fmt.Errorf("--join-pod-token-file: needs --mode kubernetes, --k8s-api-server and --pki-dir")
	}
	namespace, err := k8sutils.Namespace()
	if err != nil {
		return nil, err
	}
	config, err := k8sutils.InPod(o.apiServer)
	if err != nil {
		return nil, err
	}
	clients, err := config.Clients()
	if err != nil {
		return nil, err
	}
	return &podjoin.Cluster{Client: clients.Core, Namespace: namespace}, nil
}

// vouched configures joining with tokens of Kubernetes, for other daemons and this one.
func (o *options) vouched(config *daemon.Config, pods *podjoin.Cluster) {
	if pods == nil {
		return
	}
	config.API.Vouch, config.Security.Anew = pods.Vouch, pods.Anew()
	config.Security.Vouched = func(ctx context.Context) (string, *x509.CertPool, error) {
		token, err := pki.ReadSecret(o.security.podToken)
		if err != nil {
			return "", nil, err
		}
		authorities, err := pods.Authorities(ctx)
		return strings.TrimSpace(string(token)), authorities, err
	}
}

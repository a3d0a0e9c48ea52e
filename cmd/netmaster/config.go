package main

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api"
	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/daemon"
	"github.com/contiv/netplugin/netmaster/k8s"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/daemonflags"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/hostaddr"
	"github.com/contiv/netplugin/utils/k8sutils"
)

// config validates all flags and returns the daemon's configuration. It reports every violation; arguments other
// than flags are one.
func (o *options) config(arguments []string) (daemon.Config, error) {
	found := append(o.common.Validate(), o.resolveAddresses()...)
	for _, argument := range arguments {
		found = append(found, fmt.Errorf("%q: netmaster takes no arguments beside flags", argument))
	}
	if o.infra = strings.ToLower(o.infra); o.infra != "" && o.infra != "default" && o.infra != "aci" {
		found = append(found, fmt.Errorf("--infra %q: want default or aci", o.infra))
	}
	if o.leaderTTL < 2*time.Second {
		found = append(found, fmt.Errorf("--leader-ttl %s: must be at least 2s", o.leaderTTL))
	}
	if o.nodeGrace < time.Minute {
		found = append(found, fmt.Errorf("--node-grace %s: must be at least 1m", o.nodeGrace))
	}
	audited := audit.New(o.auditLog, logrus.WithField("component", "audit"))
	if err := o.auditing(audited); err != nil {
		found = append(found, err)
	}
	if o.rate < 0 {
		found = append(found, fmt.Errorf("--client-rate %d: want 0, for any number, or more", o.rate))
	}
	cluster, violations := o.kubernetes(k8sutils.DefaultPath)
	found = append(found, violations...)
	member, violations := o.member()
	found = append(found, violations...)
	pods, err := o.inPod()
	if err != nil {
		found = append(found, err)
	}
	security, violations := o.protection()
	violations = append(violations, o.enters(member, &security)...)
	if found = append(found, violations...); len(found) > 0 {
		return daemon.Config{}, errors.Join(found...)
	}
	var metrics []prometheus.Collector
	if cluster != nil {
		metrics = append(metrics, cluster.Metrics)
	}
	config := daemon.Config{
		Listen: o.external, Control: o.internal, Metrics: metrics,
		Store: o.store(), Embedded: member, Security: security,
		API: api.Config{
			ClusterMode: o.common.Mode,
			Defaults:    api.WithDefaults(contivmodel.Global{FwdMode: o.common.FwdMode, NetworkInfraType: o.infra}),
			ClientRate:  clientRate(o.rate),
			Audit:       audited,
			Log:         logrus.WithField("component", "api"),
		},
		Follow:    o.follow(cluster, pods),
		LeaderTTL: o.leaderTTL, NodeGrace: o.nodeGrace,
		Log: logrus.WithField("component", "netmaster"),
	}
	o.vouched(&config, pods)
	return config, nil
}

// auditing configures a log as the flags require.
func (o *options) auditing(log *audit.Log) error {
	if o.syslog != "" {
		if err := log.SendTo(o.syslog); err != nil {
			return fmt.Errorf("--audit-syslog %w", err)
		}
	}
	switch o.audit {
	case auditStrict:
		log.Strict()
	case auditUsual:
	default:
		return fmt.Errorf("--audit %q: want %s or %s", o.audit, auditUsual, auditStrict)
	}
	return nil
}

// clientRate returns the rate limit for the flag's value.
func clientRate(perSecond int) rate.Limit {
	if perSecond == 0 {
		return rate.Inf
	}
	return rate.Limit(perSecond)
}

// kubernetes returns how the leader reaches the API server, from a flag or the file. Without either no pods are
// placed, which is logged at each term.
func (o *options) kubernetes(path string) (*k8s.Config, []error) {
	choice := k8s.TenantChoice(o.tenantChoice)
	if choice != k8s.ByNamespace && choice != k8s.Open {
		return nil, []error{fmt.Errorf("--k8s-tenant-choice %q: want %s or %s", o.tenantChoice, k8s.ByNamespace, k8s.Open)}
	}
	podRanges, err := k8s.ParseRanges(o.clusterCIDR)
	if err != nil {
		return nil, []error{fmt.Errorf("--cluster-cidr %q: %w", o.clusterCIDR, err)}
	}
	if o.common.Mode != "kubernetes" {
		return nil, nil
	}
	load := func() (k8sutils.Config, error) { return k8sutils.Load(path) }
	if o.apiServer != "" {
		load = func() (k8sutils.Config, error) { return k8sutils.InPod(o.apiServer) }
	}
	config, err := load()
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, []error{err}
	}
	clients, err := config.Clients()
	if err != nil {
		return nil, []error{err}
	}
	return &k8s.Config{
		Client: clients.Core, PolicyClient: clients.Policies, Choice: choice, NoExternalIPs: !o.externalIPs,
		PodRanges: podRanges, Metrics: k8s.NewMetrics(),
	}, nil
}

// resolveAddresses validates the addresses, and determines the internal one if none was given.
func (o *options) resolveAddresses() []error {
	var found []error
	if err := daemonflags.CheckAddress(o.external); err != nil {
		return append(found, fmt.Errorf("--external-address: %w", err))
	}
	o.external = daemonflags.Canonical(o.external)
	if o.internal == "" {
		own, err := hostaddr.Default()
		if err != nil {
			return append(found, fmt.Errorf("--internal-address: not given, and %w", err))
		}
		_, port, _ := net.SplitHostPort(o.external)
		o.internal = net.JoinHostPort(own.String(), port)
	}
	if err := daemonflags.CheckAddress(o.internal); err != nil {
		return append(found, fmt.Errorf("--internal-address: %w", err))
	}
	o.internal = daemonflags.Canonical(o.internal) // canonical, since other components compare it
	host, _, _ := net.SplitHostPort(o.internal)
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		found = append(found, fmt.Errorf("--internal-address %q: want an IP address others can reach", o.internal))
	}
	return found
}

// store returns the configuration of the etcd client: the own member first, if there is one.
func (o *options) store() objdb.Config {
	name, password := o.common.Store.Credentials()
	s := o.common.Store
	endpoints := s.Endpoints
	if o.embeddedDir != "" && !o.common.EtcdGiven() {
		endpoints = []string{o.embeddedClientURL}
	}
	return objdb.Config{Endpoints: endpoints, CAFile: s.CAFile, CertFile: s.CertFile, KeyFile: s.KeyFile,
		ServerName: s.ServerName, User: name, Password: password, Log: logrus.WithField("component", "objdb")}
}

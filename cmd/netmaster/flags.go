package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api"
	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/daemon"
	"github.com/contiv/netplugin/netmaster/k8s"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/utils/buildinfo"
	"github.com/contiv/netplugin/utils/daemonflags"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/hostaddr"
	"github.com/contiv/netplugin/utils/k8sutils"
)

// options is the command line.
type options struct {
	common     daemonflags.Common
	infra      string
	pluginName string
	external   string
	internal   string

	embeddedDir       string
	embeddedName      string
	embeddedClientURL string
	embeddedPeerURL   string
	embeddedPeers     string
	embeddedNoFsync   bool

	tenantChoice string
	clusterCIDR  string
	apiServer    string // of Kubernetes; empty: a file names it

	leaderTTL time.Duration
	nodeGrace time.Duration
	auditLog  string

	security securityOptions
}

const (
	categoryMaster   = "Netmaster"
	categoryEmbedded = "Embedded etcd"
	categorySecurity = "Security"
)

const description = `Netmaster needs to know three things: who asks for ports (--mode), how packets
travel between hosts (--netmode) and how they are forwarded (--fwdmode).

One machine, nothing else installed:
   netmaster --mode cni --netmode vxlan --fwdmode routing --embedded-etcd /var/lib/contiv/etcd

One of three, each with a member of the store (here the first):
   netmaster --mode kubernetes --netmode vxlan --fwdmode routing \
     --internal-address 10.1.1.1:9999 --embedded-etcd /var/lib/contiv/etcd --embedded-etcd-name m1 \
     --embedded-etcd-client-url http://10.1.1.1:2379 --embedded-etcd-peer-url http://10.1.1.1:2380 \
     --embedded-etcd-peers m1=http://10.1.1.1:2380,m2=http://10.1.1.2:2380,m3=http://10.1.1.3:2380

With an etcd cluster that is there already:
   netmaster --mode kubernetes --netmode vxlan --fwdmode routing --etcd-endpoints http://e1:2379,http://e2:2379

Every flag can be given in the environment, by the name shown in brackets; an
empty variable counts as unset. A configuration that breaks a rule is reported
completely, with exit status 22.`

// command is the command line as --help shows it.
func command(o *options) *cli.Command {
	set := daemonflags.Set{Daemon: "netmaster"}
	flags := append(daemonflags.Flags("netmaster", &o.common),
		set.String(&o.external, "external-address", "EXTERNAL_ADDRESS", "0.0.0.0:9999", categoryMaster,
			"address:port users and agents reach", "listen-url"),
		set.String(&o.internal, "internal-address", "INTERNAL_ADDRESS", "", categoryMaster,
			"address:port the other netmasters and agents are told (default: this host's address, port of --external-address)", "control-url"),
		set.String(&o.infra, "infra", "INFRA", "default", categoryMaster,
			"fabric: default or aci", "infra-type"),
		set.String(&o.pluginName, "name", "PLUGIN_NAME", "netplugin", categoryMaster,
			"driver name of docker networks; docker and swarm-mode only", "plugin-name"),
		set.String(&o.apiServer, "k8s-api-server", "K8S_API_SERVER", "", categoryMaster,
			"URL of Kubernetes' API server, for a netmaster in a pod: its service account is used (default: what "+k8sutils.DefaultPath+" says)"),
		set.String(&o.tenantChoice, "k8s-tenant-choice", "K8S_TENANT_CHOICE", string(k8s.ByNamespace), categoryMaster,
			"who chooses the tenant of a pod: namespace, with those it allows, or open, whoever creates the pod"),
		set.String(&o.clusterCIDR, "cluster-cidr", "CLUSTER_CIDR", "", categoryMaster,
			"where pods of a new Kubernetes cluster get addresses, a range for each version of IP, separated by a comma (default: as kubeadm was told, or 10.128.0.0/14 and fd00:10:128::/64)"),
		duration(set, &o.leaderTTL, "leader-ttl", "LEADER_TTL", 10*time.Second,
			"longest time until another netmaster takes over from one that died; below 9s etcd itself may need longer"),
		duration(set, &o.nodeGrace, "node-grace", "NODE_GRACE", 24*time.Hour,
			"how long a node may be away before its endpoints are freed"),
		set.String(&o.auditLog, "audit-log", "AUDIT_LOG", "/var/log/contiv/audit.log", categoryMaster,
			"file in which the leader of a cluster that asks who somebody is writes down changes and refusals"),

		set.Bool(&o.security.secure, "secure", "SECURE", categorySecurity,
			"close the cluster: a new one is enforced, it asks everybody who he is, over TLS; one of before that is open gets authorities for certificates and is permissive. Default for new clusters with --embedded-etcd, or on an etcd reached with --etcd-cert"),
		set.Bool(&o.security.insecure, "insecure", "INSECURE", categorySecurity,
			"let a new cluster be open, as those of old: REST over plain HTTP, nobody is asked who he is. Default for new clusters on a plain etcd; one that is there keeps its mode (netctl security --help)"),
		set.String(&o.security.plainLoopback, "plain-loopback", "PLAIN_LOOPBACK", "", categorySecurity,
			"serve plain HTTP on loopback to whoever asks there, in this role, also if the cluster is enforced: every user and host-network pod of the machine has it then"),
		set.String(&o.security.token, "join-token-file", "JOIN_TOKEN_FILE", "", categorySecurity,
			"file with a token of netctl token create --role master, which only its own user may read: a netmaster that has no authorities is given them by another one, over TLS, and does not lead before"),
		set.String(&o.security.join, "join", "JOIN", "", categorySecurity,
			"netmasters to ask then, address:port with commas between, before those that are registered in the store"),
		set.String(&o.security.podToken, "join-pod-token-file", "JOIN_POD_TOKEN_FILE", "", categorySecurity,
			"file with a token of this pod's service account, for audience "+mastercfg.JoinAudience+": where the cluster has authorities, this netmaster is given them by another one; with --k8s-api-server"),
		set.String(&o.security.dir, "pki-dir", "PKI_DIR", "/var/lib/contiv/pki", categorySecurity,
			"directory of the authorities; only its own user may read it"),
		set.String(&o.security.own.Cert, "tls-cert", "TLS_CERT", "", categorySecurity,
			"certificate of your own, with those between it and its authority: it is shown to clients that ask for a name that it has; read again each minute and on SIGHUP, as the next three"),
		set.String(&o.security.own.Key, "tls-key", "TLS_KEY", "", categorySecurity, "its key, which only netmaster's user may read"),
		set.String(&o.security.own.ClientCA, "tls-client-ca", "TLS_CLIENT_CA", "", categorySecurity,
			"authorities of your own: their certificates stand for the user whom a URI in them names, contiv://CLUSTER/user/NAME, or --client-cert-map"),
		set.String(&o.security.own.Map, "client-cert-map", "CLIENT_CERT_MAP", "", categorySecurity,
			"file with a line for each of their users: a name, and the subject of the certificate (RFC 2253) or key: and the SHA-256 of its public key"),
		set.String(&o.security.names, "tls-san", "TLS_SAN", "", categorySecurity,
			"names and addresses, with commas between, that clients reach this netmaster by, beside its own addresses"),
		set.String(&o.security.socket, "socket", "SOCKET", "", categorySecurity,
			"socket on which root of this machine is served (default: "+defaultSocket+", if it can be made)"),
		&cli.DurationFlag{Name: "leaf-life", Sources: set.Env("LEAF_LIFE"), Value: pki.LeafLife, Destination: &o.security.leafLife,
			Category: categorySecurity, Usage: "how long certificates are good for; for tests of their renewal", OnlyOnce: true, Hidden: true},
		set.String(&o.security.authProxy, "auth-proxy-address", "AUTH_PROXY_ADDRESS", "", categorySecurity,
			"another address:port, such as :10000, on which REST is served over TLS only, for clients that know the authenticating proxy of the original there"),

		set.String(&o.embeddedDir, "embedded-etcd", "EMBEDDED_ETCD", "", categoryEmbedded,
			"run a member of the store in this process, with its data in this directory"),
		set.String(&o.embeddedName, "embedded-etcd-name", "EMBEDDED_ETCD_NAME", "netmaster", categoryEmbedded,
			"name of the member, unique in its cluster"),
		set.String(&o.embeddedClientURL, "embedded-etcd-client-url", "EMBEDDED_ETCD_CLIENT_URL", daemonflags.DefaultEtcdEndpoint, categoryEmbedded,
			"URL the member serves clients on; agents use it as their --etcd-endpoints"),
		set.String(&o.embeddedPeerURL, "embedded-etcd-peer-url", "EMBEDDED_ETCD_PEER_URL", "", categoryEmbedded,
			"URL the member talks to the others on (default: what --embedded-etcd-peers says, or "+alonePeerURL+")"),
		set.String(&o.embeddedPeers, "embedded-etcd-peers", "EMBEDDED_ETCD_PEERS", "", categoryEmbedded,
			"all members, name=peer URL,...; none: alone"),
		set.Bool(&o.embeddedNoFsync, "embedded-etcd-unsafe-no-fsync", "EMBEDDED_ETCD_UNSAFE_NO_FSYNC", categoryEmbedded,
			"do not wait for the disk; a machine that stops loses data; for tests"),
	)
	return &cli.Command{
		Name: "netmaster", Usage: "controller of Contiv networks", UsageText: "netmaster [options]",
		Description: description, Version: buildinfo.Get().Version, Flags: flags, HideHelpCommand: true,
		OnUsageError:   func(_ context.Context, _ *cli.Command, err error, _ bool) error { return invalid{err} },
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
	}
}

func duration(set daemonflags.Set, dst *time.Duration, name, env string, value time.Duration, usage string) cli.Flag {
	return &cli.DurationFlag{Name: name, Sources: set.Env(env), Value: value, Destination: dst,
		Category: categoryMaster, Usage: usage, OnlyOnce: true}
}

// config checks all flags and turns them into the daemon's configuration.
// Every violation is reported; arguments beside flags are one.
func (o *options) config(arguments []string) (daemon.Config, error) {
	found := append(o.common.Validate(), o.resolveAddresses()...)
	for _, argument := range arguments {
		found = append(found, fmt.Errorf("%q: netmaster takes no arguments beside flags", argument))
	}
	if o.infra = strings.ToLower(o.infra); o.infra != "default" && o.infra != "aci" {
		found = append(found, fmt.Errorf("--infra %q: want default or aci", o.infra))
	}
	if o.leaderTTL < 2*time.Second {
		found = append(found, fmt.Errorf("--leader-ttl %s: must be at least 2s", o.leaderTTL))
	}
	if o.nodeGrace < time.Minute {
		found = append(found, fmt.Errorf("--node-grace %s: must be at least 1m", o.nodeGrace))
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
			Audit:       audit.New(o.auditLog, logrus.WithField("component", "audit")),
			Log:         logrus.WithField("component", "api"),
		},
		Follow:    o.follow(cluster, pods),
		LeaderTTL: o.leaderTTL, NodeGrace: o.nodeGrace,
		Log: logrus.WithField("component", "netmaster"),
	}
	o.vouched(&config, pods)
	return config, nil
}

// kubernetes is how the leader reaches the API server that a flag or the file names. Without
// either nobody places pods, which is said at each term.
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
	return &k8s.Config{Client: clients.Core, PolicyClient: clients.Policies, Choice: choice, PodRanges: podRanges, Metrics: k8s.NewMetrics()}, nil
}

// resolveAddresses checks the addresses and finds the internal one if none was given.
func (o *options) resolveAddresses() []error {
	var found []error
	if err := daemonflags.CheckAddress(o.external); err != nil {
		return append(found, fmt.Errorf("--external-address: %w", err))
	}
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
	host, _, _ := net.SplitHostPort(o.internal)
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		found = append(found, fmt.Errorf("--internal-address %q: want an IP address others can reach", o.internal))
	}
	return found
}

// alonePeerURL is that of a member of which nobody says it.
const alonePeerURL = "http://127.0.0.1:2380"

// member is the embedded store, nil without.
func (o *options) member() (*embedded.Config, []error) {
	if o.embeddedDir == "" {
		return nil, nil
	}
	var found []error
	peers := map[string]string{}
	for _, item := range daemonflags.List(o.embeddedPeers) {
		name, url, ok := strings.Cut(item, "=")
		if !ok || name == "" {
			found = append(found, fmt.Errorf("--embedded-etcd-peers %q: want name=URL", item))
			continue
		}
		if err := daemonflags.CheckURL(url); err != nil {
			found = append(found, fmt.Errorf("--embedded-etcd-peers: %w", err))
		}
		peers[name] = url
	}
	peerURL := cmp.Or(o.embeddedPeerURL, peers[o.embeddedName], alonePeerURL)
	for flag, url := range map[string]string{"client": o.embeddedClientURL, "peer": peerURL} {
		if err := daemonflags.CheckURL(url); err != nil {
			found = append(found, fmt.Errorf("--embedded-etcd-%s-url: %w", flag, err))
		}
	}
	if _, named := peers[o.embeddedName]; len(peers) > 0 && !named {
		found = append(found, fmt.Errorf("--embedded-etcd-peers: has no member %q, which --embedded-etcd-name says this is", o.embeddedName))
	}
	return &embedded.Config{
		Dir: o.embeddedDir, Name: o.embeddedName, ClientURL: o.embeddedClientURL, PeerURL: peerURL, Peers: peers,
		NoFsync: o.embeddedNoFsync, Log: logrus.WithField("component", "etcd"),
	}, found
}

// store is how etcd is reached: the own member first, if there is one.
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

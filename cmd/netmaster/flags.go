package main

import (
	"context"
	"slices"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/k8s"
	"github.com/contiv/netplugin/utils/buildinfo"
	"github.com/contiv/netplugin/utils/daemonflags"
	"github.com/contiv/netplugin/utils/k8sutils"
	"github.com/contiv/netplugin/utils/ports"
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
	externalIPs  bool // of services of Kubernetes
	clusterCIDR  string
	apiServer    string // of Kubernetes; empty: taken from a file

	leaderTTL time.Duration
	nodeGrace time.Duration
	auditLog  string
	audit     string // auditUsual or auditStrict
	syslog    string
	rate      int

	security securityOptions
}

// The values of --audit.
const (
	auditUsual  = "usual"
	auditStrict = "strict"
)

const (
	categoryMaster   = "Netmaster"
	categoryEmbedded = "Embedded etcd"
	categorySecurity = "Security"
)

const description = `Netmaster needs to know three things: who asks for ports (--mode), how packets
travel between hosts (--netmode) and how they are forwarded (--fwdmode).

One machine, nothing else installed:
   netmaster --mode cni --netmode vxlan --fwdmode routing --embedded-etcd /var/lib/contiv/etcd

One of three, each with a member of the store, here the first, which founds the cluster; the
others are started alike, each with its name and address, and with --join-token-file:
   netmaster --mode kubernetes --netmode vxlan --fwdmode routing \
     --internal-address 10.1.1.1:9999 --embedded-etcd /var/lib/contiv/etcd --embedded-etcd-name m1 \
     --embedded-etcd-client-url https://127.0.0.1:2379 \
     --embedded-etcd-peers m1=https://10.1.1.1:2380,m2=https://10.1.1.2:2380,m3=https://10.1.1.3:2380

With an etcd cluster that is there already:
   netmaster --mode kubernetes --netmode vxlan --fwdmode routing --etcd-endpoints http://e1:2379,http://e2:2379

Every flag can be given in the environment, by the name shown in brackets; an
empty variable counts as unset. A configuration that breaks a rule is reported
completely, with exit status 22.`

// command returns the command line as --help shows it.
func command(o *options) *cli.Command {
	set := daemonflags.Set{Daemon: "netmaster"}
	return &cli.Command{
		Name: "netmaster", Usage: "controller of Contiv networks", UsageText: "netmaster [options]",
		Description: description, Version: buildinfo.Get().Version, HideHelpCommand: true, Commands: []*cli.Command{verifyCommand()},
		Flags:          slices.Concat(daemonflags.Flags("netmaster", &o.common), o.masterFlags(set), o.security.flags(set), o.embeddedFlags(set)),
		OnUsageError:   func(_ context.Context, _ *cli.Command, err error, _ bool) error { return invalid{err} },
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
	}
}

func (o *options) masterFlags(set daemonflags.Set) []cli.Flag {
	return []cli.Flag{
		set.String(&o.external, "external-address", "EXTERNAL_ADDRESS", ports.At("0.0.0.0", ports.Netmaster), categoryMaster,
			"address:port users and agents reach", "listen-url"),
		set.String(&o.internal, "internal-address", "INTERNAL_ADDRESS", "", categoryMaster,
			"address:port the other netmasters and agents are told (default: this host's address, port of --external-address)", "control-url"),
		set.String(&o.infra, "infra", "INFRA", "", categoryMaster,
			"fabric: default or aci; each netmaster with this flag sets it when it begins to lead (default: as it is; default in a new cluster)", "infra-type"),
		set.String(&o.pluginName, "name", "PLUGIN_NAME", "netplugin", categoryMaster,
			"driver name of docker networks; docker and swarm-mode only", "plugin-name"),
		set.String(&o.apiServer, "k8s-api-server", "K8S_API_SERVER", "", categoryMaster,
			"URL of Kubernetes' API server, or of several, with commas between them, of which one that can be reached is asked; for a netmaster in a pod: its service account is used (default: what "+k8sutils.DefaultPath+" says)"),
		set.String(&o.tenantChoice, "k8s-tenant-choice", "K8S_TENANT_CHOICE", string(k8s.ByNamespace), categoryMaster,
			"who chooses the tenant of a pod: namespace, with those it allows, or open, whoever creates the pod"),
		&cli.BoolFlag{Name: "k8s-external-ips", Sources: set.Env("K8S_EXTERNAL_IPS"), Value: true, Destination: &o.externalIPs, Category: categoryMaster,
			Usage: "serve Kubernetes' services at their externalIPs, which whoever may create a service writes down and nobody else checks; the same at each netmaster, as that of the leader counts", OnlyOnce: true},
		set.String(&o.clusterCIDR, "cluster-cidr", "CLUSTER_CIDR", "", categoryMaster,
			"where pods of a new Kubernetes cluster get addresses, a range for each version of IP, separated by a comma (default: as kubeadm was told, or 10.128.0.0/14 and fd00:10:128::/64)"),
		duration(set, &o.leaderTTL, "leader-ttl", "LEADER_TTL", 10*time.Second,
			"longest time until another netmaster takes over from one that died; below 9s etcd itself may need longer"),
		duration(set, &o.nodeGrace, "node-grace", "NODE_GRACE", 24*time.Hour,
			"how long a node may be away before its endpoints are freed"),
		set.String(&o.auditLog, "audit-log", "AUDIT_LOG", defaultAuditLog, categoryMaster,
			"file in which the leader of a cluster that asks who somebody is writes down changes and refusals"),
		set.String(&o.audit, "audit", "AUDIT", auditUsual, categoryMaster,
			"usual: changes go on where they cannot be written down, which is counted; strict: nothing is changed before the disk has a line about it"),
		set.String(&o.syslog, "audit-syslog", "AUDIT_SYSLOG", "", categoryMaster,
			"server of syslog that is sent a copy of each line: unix:///dev/log, or udp, tcp or tls://HOST:PORT"),
		&cli.IntFlag{Name: "client-rate", Sources: set.Env("CLIENT_RATE"), Value: auth.ClientRate, Destination: &o.rate, Category: categoryMaster,
			Usage: "how many requests a second of one user, token, node or, of those who show nothing, address the leader of an enforced cluster answers, and twice as many at once; 0: any number", OnlyOnce: true},
	}
}

func (o *options) embeddedFlags(set daemonflags.Set) []cli.Flag {
	return []cli.Flag{
		set.String(&o.embeddedDir, "embedded-etcd", "EMBEDDED_ETCD", "", categoryEmbedded,
			"run a member of the store in this process, with its data in this directory"),
		set.String(&o.embeddedName, "embedded-etcd-name", "EMBEDDED_ETCD_NAME", "netmaster", categoryEmbedded,
			"name of the member, unique in its cluster"),
		set.String(&o.embeddedClientURL, "embedded-etcd-client-url", "EMBEDDED_ETCD_CLIENT_URL", daemonflags.DefaultEtcdEndpoint, categoryEmbedded,
			"URL the member serves clients on; agents of an open cluster use it as their --etcd-endpoints. With https it takes netmasters' certificates only, and the peer URLs have to be https, too"),
		set.String(&o.embeddedPeerURL, "embedded-etcd-peer-url", "EMBEDDED_ETCD_PEER_URL", "", categoryEmbedded,
			"URL the member talks to the others on (default: what --embedded-etcd-peers says, or port 2380 of loopback). With https the first that --embedded-etcd-peers names founds the cluster alone, and those with --join-token-file enter it"),
		set.String(&o.embeddedPeers, "embedded-etcd-peers", "EMBEDDED_ETCD_PEERS", "", categoryEmbedded,
			"all members, name=peer URL,...; none: alone. With https URLs, netmasters to ask (--join)"),
		set.Bool(&o.embeddedNoFsync, "embedded-etcd-unsafe-no-fsync", "EMBEDDED_ETCD_UNSAFE_NO_FSYNC", categoryEmbedded,
			"do not wait for the disk; a machine that stops loses data; for tests"),
	}
}

func duration(set daemonflags.Set, dst *time.Duration, name, env string, value time.Duration, usage string) cli.Flag {
	return &cli.DurationFlag{Name: name, Sources: set.Env(env), Value: value, Destination: dst,
		Category: categoryMaster, Usage: usage, OnlyOnce: true}
}

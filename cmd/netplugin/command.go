package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/drivers/uplink"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniinstall"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/nodeapi"
	"github.com/contiv/netplugin/utils/buildinfo"
	"github.com/contiv/netplugin/utils/daemonflags"
	"github.com/contiv/netplugin/utils/ports"
)

const (
	categoryNode  = "Node"
	categoryNames = "Names"
	versionFlag   = "version"
	runDirFlag    = "ovs-rundir"
)

// command returns the command line; it calls start with validated options.
func command(start func(context.Context, *options) error) *cli.Command {
	var o options
	return &cli.Command{
		Name:                   "netplugin",
		Usage:                  "agent of a node: programs Open vSwitch and attaches containers",
		Commands:               []*cli.Command{installCommand(), cleanupCommand()},
		Flags:                  append(daemonflags.Flags("netplugin", &o.Common), nodeFlags(&o)...),
		UseShortOptionHandling: true,
		HideHelpCommand:        true,
		OnUsageError: func(_ context.Context, _ *cli.Command, err error, _ bool) error {
			return &configError{[]error{err}}
		},
		ExitErrHandler: func(context.Context, *cli.Command, error) {}, // main handles errors
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.Bool(versionFlag) {
				return showVersion(cmd)
			}
			if err := o.complete(cmd.Args().Slice()); err != nil {
				return err
			}
			if err := o.Logging.Apply(logrus.StandardLogger()); err != nil {
				return &configError{[]error{err}}
			}
			return start(ctx, &o)
		},
	}
}

func showVersion(cmd *cli.Command) error {
	_, err := fmt.Fprintln(cmd.Root().Writer, buildinfo.Get())
	return err
}

// withoutArguments returns the action of a subcommand that takes flags only, also those of the daemon: a mistyped one,
// such as "cleanup dry-run", does nothing.
func withoutArguments(action cli.ActionFunc) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		switch {
		case cmd.Bool(versionFlag):
			return showVersion(cmd)
		case cmd.Args().Present():
			return &configError{[]error{fmt.Errorf("%s: unexpected argument %q", cmd.Name, cmd.Args().First())}}
		}
		if name := misplaced(cmd); name != "" {
			return &configError{[]error{fmt.Errorf("--%s before %s has no effect on it; give it behind %s", name, cmd.Name, cmd.Name)}}
		}
		return action(ctx, cmd)
	}
}

// misplaced returns a flag of a subcommand that was given before it, where it is the daemon's; "": none. The environment
// does not count: it is the daemon's, and may name a folder that a netmaster uses.
func misplaced(cmd *cli.Command) string {
	for _, own := range cmd.Flags {
		for _, its := range cmd.Root().Flags {
			given, counts := its.(cli.Countable) // of the command line
			if counts && given.Count() > 0 && slices.Contains(its.Names(), own.Names()[0]) {
				return own.Names()[0]
			}
		}
	}
	return ""
}

// nodeFlags returns the flags that only this daemon has.
func nodeFlags(o *options) []cli.Flag {
	set := daemonflags.Set{Daemon: "netplugin"}
	return []cli.Flag{
		&cli.BoolFlag{Name: versionFlag, Aliases: []string{"v"}, Usage: "print version, commit and build time"},
		set.String(&o.hostLabel, "host", "HOST", "", categoryNode, "identity of the node in the cluster (default: the host's name)", "host-label"),
		set.String(&o.ctrlIP, "ctrl-ip", "CONTROL_IP", "", categoryNode, "address others reach this node's REST server at, or a network: the host's address in it (default: the host's address)"),
		set.String(&o.vtepIP, "vtep-ip", "VTEP_IP", "", categoryNode, "this node's end of the tunnels, or a network: the host's address in it (default: the host's address)"),
		set.String(&o.vlanUplinks, "vlan-uplinks", "VLAN_UPLINKS", "", categoryNode, "comma-separated links to the physical network, for vlan networks; several are a bond", "vlan-if"),
		set.String(&o.vlanBondMode, "vlan-bond-mode", "VLAN_BOND_MODE", string(uplink.DefaultBondMode), categoryNode,
			"how several uplinks are bonded: "+strings.Join(uplink.BondModes(), ", ")),
		&cli.IntFlag{Name: "vxlan-port", Sources: set.Env("VXLAN_PORT"), Value: ports.VXLAN, Destination: &o.vxlanPort,
			Category: categoryNode, Usage: "UDP port of the tunnels", OnlyOnce: true},
		&cli.StringFlag{Name: runDirFlag, Sources: cli.EnvVars("OVS_RUNDIR"), Value: ovsd.DefaultRunDir, Destination: &o.runDir,
			Category: categoryNode, Usage: "directory of Open vSwitch's sockets", OnlyOnce: true},
		set.String(&o.datapath, "datapath", "DATAPATH", ovsd.DatapathAuto, categoryNode, "system (kernel), netdev (userspace) or auto"),
		&cli.BoolFlag{Name: "nat", Sources: set.Env("NAT"), Value: true, Destination: &o.nat, Category: categoryNode,
			Usage: "let endpoints of routed networks reach the outside by this host (contivh0)", OnlyOnce: true},
		&cli.BoolFlag{Name: "packet-too-big", Sources: set.Env("PACKET_TOO_BIG"), Value: true, Destination: &o.tooBig, Category: categoryNode,
			Usage: "tell endpoints of routed networks of packets that are too big for their way, by ICMP", OnlyOnce: true},
		&cli.IntFlag{Name: "slow-from-masks", Sources: set.Env("SLOW_FROM_MASKS"), Destination: &o.slowFrom, Category: categoryNode,
			Usage: "slow a pod down to 20 packets a second from where on the datapath looks up what it sends by so many masks, as it does for who sends headers of all kinds; 0: nobody", OnlyOnce: true},
		&cli.IntFlag{Name: "tenant-connections", Sources: set.Env("TENANT_CONNECTIONS"), Destination: &o.tenantConnections, Category: categoryNode,
			Usage: "connections of a tenant to services, and as many that policies judge, that this node's datapath tracks at most; 0: a quarter of its table each where there are several tenants; -1: any number", OnlyOnce: true},
		set.String(&o.nodePortAddresses, "node-port-addresses", "NODE_PORT_ADDRESSES", "", categoryNode,
			"addresses of the host that have the node ports of services: primary, those by which Kubernetes knows it; all; or comma-separated networks, those in them (default: primary in mode kubernetes, else all)"),
		set.String(&o.probedNetworks, "probed-networks", "PROBED_NETWORKS", "", categoryNode,
			"comma-separated networks of tenants in which this node has no interface, such as blue=192.0.2.0/24: its processes, as kubelet for its probes, reach the pods that the tenant has on this node there. Nothing else that they reach may have addresses there (default: none)"),
		set.String(&o.cniConfDir, "cni-conf-dir", "CNI_CONF_DIR", "", categoryNode,
			"folder to write "+cniinstall.ConfName+" into when pods can be attached, such as "+cniinstall.DefaultConfDir+" (default: none)"),
		set.String(&o.join.tokenFile, "join-token-file", "JOIN_TOKEN_FILE", "", categoryNode,
			"file with the token of netctl token create, which only root may read; the node joins with it and asks netmasters over TLS from then on"),
		set.String(&o.join.authorities, "join-authorities", "JOIN_AUTHORITIES", "", categoryNode,
			"file with what netmasters are believed by when the node joins; with it the token may be that of a service account of Kubernetes, for audience "+mastercfg.JoinAudience),
		set.String(&o.netmasters, "netmasters", "NETMASTERS", "", categoryNode,
			"comma-separated https URLs of netmasters, through which a node that joins, or has joined, reaches the state; instead of --etcd-endpoints"),
		set.String(&o.join.dir, "pki-dir", "PKI_DIR", "/var/lib/contiv/pki", categoryNode, "directory of the node's key and certificate"),
		set.String(&o.httpAddress, "http-address", "HTTP_ADDRESS", ports.At("", ports.Agent), categoryNode, "address:port of the node's REST server"),
		set.String(&o.socket, "socket", "SOCKET", nodeapi.DefaultSocket, categoryNode, "socket of the node's REST server for root of this machine; empty: none"),
		&cli.BoolFlag{Name: "dns", Sources: set.Env("DNS"), Value: true, Destination: &o.names.on,
			Category: categoryNames, Usage: "answer endpoints' questions for names; --dns=false: do not", OnlyOnce: true},
		set.String(&o.names.upstream, "dns-upstream", "DNS_UPSTREAM", "", categoryNames,
			"comma-separated name servers, address or address:port, that are asked for all other names; none: nobody (default: those of "+resolvConf+", as it is at the time)"),
	}
}

package main

import (
	"context"

	"github.com/sirupsen/logrus"
	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniinstall"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/netspace"
)

// installCommand prepares a node for a netplugin in a container; it runs in a privileged one.
func installCommand() *cli.Command {
	var source, target string
	return &cli.Command{
		Name:  "install",
		Usage: "prepare this node for a netplugin in a container, or with its own view of the file system",
		Description: "Copies the CNI plugins, and makes the network namespaces of the name server, which outlive netplugin:\n" +
			"a container without privileges, or a service in a sandbox, could not leave them behind. Makes the folder of\n" +
			"CONTIV_NETPLUGIN_CNI_CONF_DIR, too, if that is set: a sandbox only lets through what is there when it begins.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "cni-bin-dir", Value: cniinstall.DefaultBinDir, Destination: &target, Usage: "folder of CNI plugins", OnlyOnce: true},
			&cli.StringFlag{Name: "cni-source", Value: cniinstall.DefaultSource, Destination: &source, Usage: "folder to copy them from; empty: they are there already", OnlyOnce: true},
		},
		Action: withoutArguments(func(_ context.Context, cmd *cli.Command) error {
			if dir := cmd.String("cni-conf-dir"); dir != "" {
				if err := cniinstall.Folder(dir); err != nil {
					return err
				}
			}
			for _, encap := range []pipeline.Encap{pipeline.VXLAN, pipeline.VLAN} {
				ns, _, err := netspace.Open(ovsd.DefaultNamesNetNS(encap))
				if err != nil {
					return err
				}
				if err := ns.Close(); err != nil {
					return err
				}
			}
			if source == "" {
				return nil
			}
			return cniinstall.Programs(source, target)
		}),
	}
}

// keepCNIConf installs the CNI configuration as soon as pods can be attached.
func keepCNIConf(dir string, node *agent.Agent) (keep task, problem func() string) {
	keeper := &cniinstall.Keeper{Dir: dir, Log: logrus.WithField("component", "cni")}
	return func(ctx context.Context) error {
		if err := node.AwaitSync(ctx); err != nil {
			return err
		}
		return keeper.Run(ctx)
	}, keeper.Problem
}

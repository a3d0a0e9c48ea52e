package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniinstall"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/netplugin/border"
	"github.com/contiv/netplugin/netplugin/cleanup"
	"github.com/contiv/netplugin/netplugin/hostaccess"
	"github.com/contiv/netplugin/netplugin/nodeapi"
)

// hiddenDirs are the directories of a netmaster on the machine, which deploy/kubernetes hides from netplugin by
// mounts over them. Where there is no netmaster, container runtimes create them as mount points.
var hiddenDirs = []string{"/var/lib/contiv/etcd", "/var/lib/contiv/netmaster"}

// cleanupCommand removes everything that netplugin has made on the node.
func cleanupCommand() *cli.Command {
	c := cleanup.Config{
		Bridges:   []string{ovsd.DefaultBridge, ovsd.DefaultUplinkBridge},
		StateDirs: []string{cniwire.DefaultStateDir, hostaccess.DefaultStateDir, border.DefaultStateDir},
		Files:     []string{cniwire.DefaultSocket, cniwire.Heartbeat(cniwire.DefaultSocket), nodeapi.DefaultSocket, answersFile},
		Memory:    hostaccess.DefaultStateDir,
		Hollow:    hiddenDirs,
	}
	var confDir, binDir, pkiDir string
	stay := false
	return &cli.Command{
		Name:  "cleanup",
		Usage: "leave this node as it was before netplugin's first start",
		Description: "Removes bridges, links, rules and checkpoints, and puts the host's settings back. Pods that are\n" +
			"attached lose their network. It refuses while a netplugin runs.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Destination: &c.DryRun, Usage: "only say what would be removed"},
			&cli.StringFlag{Name: "cni-conf-dir", Destination: &confDir, Usage: "folder that netplugin has written " + cniinstall.ConfName + " into", OnlyOnce: true},
			&cli.StringFlag{Name: "cni-bin-dir", Destination: &binDir, Usage: "folder that netplugin has copied its CNI plugin into", OnlyOnce: true},
			&cli.StringFlag{Name: "pki-dir", Destination: &pkiDir, Usage: "folder of the node's own key, which nobody else has anything in", OnlyOnce: true},
			&cli.BoolFlag{Name: "stay", Destination: &stay, Usage: "when all is removed, stay until a signal comes; for a DaemonSet, whose containers must not end"},
		},
		Action: withoutArguments(func(ctx context.Context, cmd *cli.Command) error {
			c.Out, c.RunDir = cmd.Root().Writer, cmd.String(runDirFlag)
			if pkiDir != "" {
				c.StateDirs = append(c.StateDirs, pkiDir)
			}
			c.Runtime = cniinstall.Placed(confDir, binDir)
			alone, made, err := beAlone(presenceFile)
			if err != nil {
				return err
			}
			defer alone.Close()
			if !made {
				c.Files = append(c.Files, presenceFile)
			}
			if err := cleanup.Run(ctx, c); err != nil || !stay {
				return err
			}
			<-ctx.Done()
			return nil
		}),
	}
}

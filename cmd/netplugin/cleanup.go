package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/netplugin/border"
	"github.com/contiv/netplugin/netplugin/cleanup"
	"github.com/contiv/netplugin/netplugin/hostaccess"
)

// cleanupCommand takes down what netplugin has made on the node.
func cleanupCommand() *cli.Command {
	c := cleanup.Config{
		Bridges:   []string{ovsd.DefaultBridge, ovsd.DefaultUplinkBridge},
		StateDirs: []string{cniwire.DefaultStateDir, hostaccess.DefaultStateDir, border.DefaultStateDir},
		Files:     []string{cniwire.DefaultSocket},
		Memory:    hostaccess.DefaultStateDir,
	}
	return &cli.Command{
		Name:  "cleanup",
		Usage: "leave this node as it was before netplugin's first start",
		Description: "Removes bridges, links, rules and checkpoints, and puts the host's settings back. Pods that are\n" +
			"attached lose their network. It refuses while a netplugin runs.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Destination: &c.DryRun, Usage: "only say what would be removed"},
			&cli.StringFlag{Name: "ovs-rundir", Sources: cli.EnvVars("OVS_RUNDIR"), Value: ovsd.DefaultRunDir, Destination: &c.RunDir,
				Usage: "directory of Open vSwitch's sockets", OnlyOnce: true},
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			c.Out = cmd.Root().Writer
			alone, made, err := beAlone(presenceFile)
			if err != nil {
				return err
			}
			defer alone.Close()
			if !made {
				c.Files = append(c.Files, presenceFile)
			}
			return cleanup.Run(ctx, c)
		},
	}
}

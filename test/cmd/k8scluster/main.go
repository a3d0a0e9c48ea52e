// K8scluster starts a Kubernetes cluster on this machine for manual work.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/k8s/images"
	"github.com/contiv/netplugin/test/testbed"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := command().Run(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "k8scluster:", err)
		os.Exit(1)
	}
}

func command() *cli.Command {
	return &cli.Command{
		Name:  "k8scluster",
		Usage: "a Kubernetes cluster on this machine, with our daemons as its network",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Value: "/tmp/contiv-k8s", Usage: "state and logs of the cluster"},
		},
		Commands: []*cli.Command{
			{
				Name: "up", ArgsUsage: "[NODES]", Usage: "start a cluster of NODES (default 3); the last line is the path of a kubeconfig",
				Arguments: []cli.Argument{&cli.IntArg{Name: "nodes", Value: 3}},
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "install", Usage: "start our daemons by deploy/kubernetes/`WAY`, one or three, " +
						"in pods (default: beside Kubernetes, which is faster)"},
					&cli.BoolFlag{Name: "containerd2", Usage: "run containers by containerd 2 (default: by Debian's 1.6)"},
					&cli.BoolFlag{Name: "dual-stack", Usage: "IPv6 beside IPv4"},
					&cli.BoolFlag{Name: "only-ipv6", Usage: "IPv6 in place of IPv4, for nodes, pods and services"},
					&cli.IntFlag{Name: "zones", Usage: "`NUMBER` of zones that nodes are in"},
				},
				Action: up,
			},
			{Name: "down", Usage: "end the cluster and all that runs in it", Action: down},
			{
				Name: "shell", ArgsUsage: "[NODE] [COMMAND...]", Usage: "run a shell, or a command, on a node (default node1)",
				SkipFlagParsing: true, Action: shell,
			},
			{Name: "images", ArgsUsage: "FILE", Usage: "make the archive of images that the cluster and Kubernetes' own tests need", Action: makeImages,
				Flags: []cli.Flag{&cli.StringFlag{Name: "porter", Usage: "`DIR` of agnhost's example certificate", Required: true}}},
			{Name: "forward", ArgsUsage: "FILE", Usage: "lead from a port of this machine to the API server", Hidden: true, Action: forward},
		},
	}
}

func up(ctx context.Context, c *cli.Command) error {
	dir := c.String("dir")
	if _, err := cluster.Open(dir); err == nil {
		return fmt.Errorf("a cluster is up in %s; take it down first", dir)
	}
	k8s, err := cluster.Up(ctx, cluster.Config{Nodes: c.IntArg("nodes"),
		Install: c.String("install"), Containerd2: c.Bool("containerd2"), DualStack: c.Bool("dual-stack"), OnlyIPv6: c.Bool("only-ipv6"), Zones: c.Int("zones"), Dir: dir, Detach: true, Log: os.Stdout})
	if err != nil {
		return err
	}
	fmt.Println(k8s.Kubeconfig())
	return nil
}

func down(_ context.Context, c *cli.Command) error {
	k8s, err := cluster.Open(c.String("dir"))
	if err != nil {
		return err
	}
	return k8s.Close()
}

func shell(ctx context.Context, c *cli.Command) error {
	k8s, err := cluster.Open(c.String("dir"))
	if err != nil {
		return err
	}
	args := c.Args().Slice()
	if len(args) == 0 {
		args = []string{"node1"}
	}
	if len(args) == 1 {
		args = append(args, "bash")
	}
	cmd, err := k8s.Shell(ctx, args[0], args[1:]...)
	if err != nil {
		return err
	}
	code, err := testbed.RunInTerminal(cmd)
	if code != 0 {
		return cli.Exit("", code) // the command's exit code
	}
	return err
}

func forward(ctx context.Context, c *cli.Command) error {
	k8s, err := cluster.Open(c.String("dir"))
	if err != nil {
		return err
	}
	return k8s.Forward(ctx, c.Args().First())
}

func makeImages(ctx context.Context, c *cli.Command) error {
	path := c.Args().First()
	if path == "" {
		return errors.New("images: into which file?")
	}
	return images.Build(ctx, images.Sources{Bin: filepath.Dir(path), Porter: c.String("porter")}, path)
}

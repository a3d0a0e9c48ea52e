// Testbed brings up a cluster of nodes on this machine to work on by hand.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/test/testbed"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := command().Run(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "testbed:", err)
		os.Exit(1)
	}
}

func command() *cli.Command {
	return &cli.Command{
		Name:  "testbed",
		Usage: "a cluster of nodes on this machine, each with its own network, mounts and Open vSwitch",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dir", Value: "/tmp/contiv-testbed", Usage: "state and logs of the bed"},
		},
		Commands: []*cli.Command{
			{
				Name: "up", ArgsUsage: "[NODES]", Usage: "start a bed of NODES (default 3) and the daemons on every node",
				Arguments: []cli.Argument{&cli.IntArg{Name: "nodes", Value: 3}},
				Flags:     []cli.Flag{&cli.BoolFlag{Name: "bare", Usage: "only the nodes, none of our daemons"}},
				Action:    up,
			},
			{Name: "down", Usage: "end the bed and all that runs on it", Action: down},
			{Name: "status", Usage: "show the nodes and what the cluster says of itself", Action: status},
			{
				Name: "shell", ArgsUsage: "NODE [COMMAND...]", Usage: "run a shell, or a command, on a node",
				SkipFlagParsing: true, Action: shell,
			},
		},
	}
}

func up(ctx context.Context, c *cli.Command) error {
	dir := c.String("dir")
	if bed, err := testbed.Open(dir); err == nil {
		return fmt.Errorf("a bed of %d nodes is up in %s; take it down first", len(bed.Nodes), dir)
	}
	bed, err := testbed.New(ctx, testbed.Config{Nodes: c.IntArg("nodes"), Dir: dir, Detach: true, Log: os.Stdout})
	if err != nil || c.Bool("bare") {
		return err
	}
	if err := bed.StartDaemons(ctx); err != nil {
		return errors.Join(err, bed.Close())
	}
	fmt.Println("try: testbed shell node1 netctl tenant ls")
	return nil
}

func down(_ context.Context, c *cli.Command) error {
	bed, err := testbed.Open(c.String("dir"))
	if err != nil {
		return err
	}
	return bed.Close()
}

func status(ctx context.Context, c *cli.Command) error {
	bed, err := testbed.Open(c.String("dir"))
	if err != nil {
		return err
	}
	info, infoErr := bed.Info(ctx)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tSTATE\tMANAGEMENT\tVTEP\tROLE")
	for _, n := range bed.Nodes {
		state, role := "down", ""
		if n.Alive() {
			state = "up"
		}
		if info.LeaderIP == n.MgmtIP+":9999" {
			role = "leader"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", n.Name, state, n.MgmtIP, n.VTEPIP, role)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if infoErr != nil {
		fmt.Println("no netmaster answers:", infoErr)
	}
	return nil
}

func shell(ctx context.Context, c *cli.Command) error {
	bed, err := testbed.Open(c.String("dir"))
	if err != nil {
		return err
	}
	args := c.Args().Slice()
	if len(args) == 0 {
		return errors.New("shell: which node?")
	}
	for _, n := range bed.Nodes {
		if n.Name != args[0] {
			continue
		}
		run := args[1:]
		if len(run) == 0 {
			run = []string{"bash"}
		}
		cmd := n.Command(ctx, append([]string{"env", "PATH=" + bed.Bin + ":" + os.Getenv("PATH"), "CNI_PATH=" + bed.Bin,
			"NETMASTER=" + strings.Join(bed.MasterURLs(), ",")}, run...)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.SysProcAttr = nil // a shell must stay in the terminal's foreground group
		err := cmd.Run()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			os.Exit(exit.ExitCode())
		}
		return err
	}
	return fmt.Errorf("no node %q; there are node1 to node%d", args[0], len(bed.Nodes))
}

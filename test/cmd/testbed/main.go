// Testbed starts a cluster of nodes on this machine for manual work.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
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
				Flags: []cli.Flag{
					&cli.BoolFlag{Name: "bare", Usage: "only the nodes, none of our daemons"},
					&cli.BoolFlag{Name: "insecure", Usage: "an open cluster, whose agents reach etcd; else it is enforced, all join with tokens, and agents reach the state through netmasters"},
					&cli.IntFlag{Name: "uplinks", Usage: "`LINKS` of each node to a machine called outside, a switch and router of VLANs"},
				},
				Action: up,
			},
			{Name: "down", Usage: "end the bed and all that runs on it", Action: down},
			{Name: "status", Usage: "show the nodes and what the cluster says of itself", Action: status},
			{
				Name: "vlan", ArgsUsage: "VLAN ADDRESS...", Usage: "make a VLAN outside, in which the router has addresses, such as 10.1.7.1/24", Action: vlan,
			},
			{
				Name: "shell", ArgsUsage: "NODE [COMMAND...]", Usage: "run a shell, or a command, on a node or outside",
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
	bed, err := testbed.New(ctx, testbed.Config{Nodes: c.IntArg("nodes"), Uplinks: c.Int("uplinks"), Secure: !c.Bool("insecure"), Dir: dir, Detach: true, Log: os.Stdout})
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

func vlan(ctx context.Context, c *cli.Command) error {
	bed, err := testbed.Open(c.String("dir"))
	if err != nil {
		return err
	}
	if bed.Outside == nil {
		return errors.New("vlan: the nodes have no uplinks: take the bed down, and up with --uplinks 1")
	}
	id, err := strconv.ParseUint(c.Args().First(), 10, 16)
	if err != nil || id < 1 || id > 4094 {
		return fmt.Errorf("vlan %q: want 1 to 4094", c.Args().First())
	}
	var router []netip.Prefix
	for _, text := range c.Args().Tail() {
		address, err := netip.ParsePrefix(text)
		if err != nil {
			return fmt.Errorf("vlan %d: %w", id, err)
		}
		router = append(router, address)
	}
	return bed.AddVLAN(ctx, uint16(id), router...)
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
		if info.LeaderIP == n.At(9999) {
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
	command, ok := machines(bed)[args[0]]
	if !ok {
		return fmt.Errorf("no machine %q; there are node1 to node%d and, with uplinks, outside", args[0], len(bed.Nodes))
	}
	run := args[1:]
	if len(run) == 0 {
		run = []string{"bash"}
	}
	cmd := command(ctx, append([]string{"env", "PATH=" + bed.Bin + ":" + os.Getenv("PATH"), "CNI_PATH=" + bed.Bin,
		"NETMASTER=" + bed.NetmasterURL()}, run...)...)
	code, err := testbed.RunInTerminal(cmd)
	if code != 0 {
		return cli.Exit("", code) // the command's exit code
	}
	return err
}

// machines returns the machines of the bed on which a command can be run, by name.
func machines(bed *testbed.Bed) map[string]func(context.Context, ...string) *exec.Cmd {
	all := map[string]func(context.Context, ...string) *exec.Cmd{}
	for _, n := range bed.Nodes {
		all[n.Name] = n.Command
	}
	if bed.Outside != nil {
		all["outside"] = bed.Outside.Command
	}
	return all
}

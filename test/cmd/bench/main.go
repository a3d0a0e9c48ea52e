// Bench measures the performance goals of the project, each against a reference measured in the same run on the
// same machine, and prints them as a table:
//
//	bench             all of them, on a bed of three nodes
//	bench cni tcp     only those
//	bench peers       the comparison with OVN, which has to be installed
//	bench kubepods    one of those on a real cluster, which need the result of make k8s-build
//
// Measurements of netmaster alone run inside the leader's node, as "bench inside", and those of the switch inside
// a node, as "bench switch-inside"; many simulated agents are "bench crowd".
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/testbed"
)

// limit ends a run that hangs.
const limit = 30 * time.Minute

// benchmark is one measurement on a bed whose daemons are ready.
type benchmark struct {
	name   string
	run    func(context.Context, *testbed.Bed) ([]figure, error)
	fresh  bool // on a bed of its own, which it need not clean up
	nodes  int  // of that bed, if not three
	kube   bool // on a bed whose netmasters watch the simulated API server
	named  bool // runs only by name: it needs other packages, or takes minutes
	secure bool // that bed is enforced
	own    bool // starts its own environment, and gets no bed
}

// benchmarks are in the order in which they run. Those that share a bed come first; the last of them leaves it
// full.
var benchmarks = []benchmark{
	{name: "idle", run: benchIdle},
	{name: "endpoints", run: insideLeader("endpoints")},
	{name: "cni", run: benchCNI},
	{name: "tcp", run: benchTCP},
	{name: "dns", run: benchDNS},
	{name: "dnssocket", run: benchDNSSocket},
	{name: "dnsflood", run: benchDNSFlood},
	{name: "floods", run: benchFloods, named: true},
	{name: "siege", run: benchSiege, fresh: true, named: true},
	{name: "services", run: benchServices},
	{name: "rules", run: benchRules, named: true},
	{name: "limits", run: benchLimits, named: true},
	{name: "rule", run: benchRule},
	{name: "apply", run: insideLeader("apply")},
	{name: "dryrun", run: insideLeader("dryrun")},
	{name: "beside", run: insideLeader("beside")},
	{name: "list", run: insideLeader("list")},
	{name: "growth", run: insideLeader("growth")},
	{name: "memory", run: benchMemory},
	{name: "cnialone", run: benchCNI, fresh: true, nodes: 1},
	{name: "wide", run: benchWide, fresh: true},
	{name: "firstpod", run: benchFirstPod, fresh: true},
	{name: "reconcile", run: insideLeader("reconcile"), fresh: true},
	{name: "kubeleader", run: benchKubeLeader, fresh: true, nodes: 1, kube: true},
	{name: "kubenode", run: benchKubeNode, fresh: true, nodes: 1, kube: true},
	{name: "bridgedfloods", run: benchBridgedFloods, fresh: true, named: true},
	{name: "switch", run: benchSwitch, fresh: true},
	{name: "size", run: benchSize, fresh: true, nodes: 1},
	{name: "manyrules", run: benchManyRules, fresh: true, nodes: 2, named: true},
	{name: "gaterule", run: benchGateRule, fresh: true, own: true, named: true},
	{name: "gate", run: benchGateAgents, fresh: true, secure: true, named: true},
	{name: "gatememory", run: benchGateMemory, fresh: true, own: true, named: true},
	{name: "price", run: benchPrice, fresh: true, nodes: 1, secure: true, named: true},
	{name: "peers", run: benchPeers, fresh: true, nodes: 2, named: true},
	{name: "kubepods", run: onCluster(benchKubePods), fresh: true, own: true, named: true},
	{name: "kubeproxy", run: onCluster(benchKubeProxy), fresh: true, own: true, named: true},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var err error
	switch args := append(os.Args[1:], ""); args[0] {
	case "--help", "-h", "help":
		fmt.Println("Usage: bench [NAME...]\n\nMeasures, and compares with a reference in the same run: docs/performance.md says what each does.\n" + known())
	case "inside":
		err = runInside(ctx, os.Args[2:], os.Stdout)
	case "crowd":
		err = runCrowd(ctx, os.Args[2:], os.Stdin, os.Stdout)
	case "switch-inside":
		err = runSwitch(ctx, os.Stdout)
	case "size-inside":
		err = runSize(ctx, os.Stdout)
	default:
		err = runAll(ctx, os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// known returns the names of the benchmarks.
func known() string {
	var all, named []string
	for _, b := range benchmarks {
		if b.named {
			named = append(named, b.name)
		} else {
			all = append(all, b.name)
		}
	}
	return fmt.Sprintf("without a name these run: %s; only where they are named: %s", strings.Join(all, " "), strings.Join(named, " "))
}

func runAll(ctx context.Context, only []string) (err error) {
	for _, name := range only {
		if !slices.ContainsFunc(benchmarks, func(b benchmark) bool { return b.name == name }) {
			return fmt.Errorf("no benchmark %q; %s", name, known())
		}
	}
	var bed *testbed.Bed // nil: none is running
	defer func() {
		if bed != nil {
			err = errors.Join(err, bed.Close())
		}
	}()
	var figures []figure
	for _, b := range benchmarks {
		if !slices.Contains(only, b.name) && (len(only) > 0 || b.named) {
			continue
		}
		if bed != nil && b.fresh {
			old := bed
			bed = nil
			if err := old.Close(); err != nil {
				return err
			}
		}
		if bed == nil && !b.own {
			if bed, err = b.bed(ctx); err != nil {
				return err
			}
		}
		fmt.Printf("measuring %s, load average %s\n", b.name, load())
		before := ownThreads()
		f, err := b.run(ctx, bed)
		fmt.Printf("%s: load average %s, its processes %s\n", b.name, load(), ownThreads().since(before))
		if err != nil {
			if bed != nil {
				bed.DumpLogs(os.Stderr)
			}
			return errors.Join(fmt.Errorf("%s: %w", b.name, err), printFigures(os.Stdout, figures))
		}
		figures = append(figures, f...)
	}
	return printFigures(os.Stdout, figures)
}

// bed starts the bed for a benchmark.
func (b benchmark) bed(ctx context.Context) (bed *testbed.Bed, err error) {
	config := testbed.Config{Nodes: cmp.Or(b.nodes, 3), Secure: b.secure, Log: os.Stdout}
	if b.kube {
		config.Mode = "kubernetes"
	}
	if bed, err = testbed.New(ctx, config); err != nil {
		return nil, err
	}
	if b.kube {
		err = followKube(ctx, bed)
	}
	if err == nil {
		err = bed.StartDaemons(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, bed.Close())
	}
	return bed, nil
}

// onCluster returns a benchmark that runs a measurement on a real cluster of its own.
func onCluster(measure func(context.Context, *cluster.Cluster) ([]figure, error)) func(context.Context, *testbed.Bed) ([]figure, error) {
	return func(ctx context.Context, _ *testbed.Bed) (figures []figure, err error) {
		dir, err := os.MkdirTemp("", "contiv-k8s-")
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		c, err := cluster.Up(ctx, cluster.Config{Nodes: 3, Dir: filepath.Join(dir, "cluster"), Log: os.Stdout})
		if err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				c.DumpLogs(os.Stderr)
			}
			err = errors.Join(err, c.Close())
		}()
		return measure(ctx, c)
	}
}

// load returns the machine's load average of the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err.Error()
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}

// netctlAll runs netctl commands in order and stops at the first failure.
func netctlAll(ctx context.Context, bed *testbed.Bed, commands ...[]string) error {
	for _, c := range commands {
		if _, err := bed.Netctl(ctx, c...); err != nil {
			return err
		}
	}
	return nil
}

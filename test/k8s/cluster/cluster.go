// Package cluster starts Kubernetes on a test bed from real components: API server, controller manager and
// scheduler on the first node, containerd and kubelet on every node, our daemons as the only network, CoreDNS.
//
//	                 node1                      node2 ...
//	kubectl ---- etcd, kube-apiserver
//	(forwarded)  controller-manager, scheduler
//	             containerd, kubelet        containerd, kubelet
//	             netmaster, netplugin       netmaster, netplugin
//
// Besides the test bed's programs it needs what `make k8s-build` builds: a folder with the components of
// Kubernetes and an archive of the images that its own tests use.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// Config describes a cluster.
type Config struct {
	Nodes       int       // 1..20
	DualStack   bool      // IPv6 beside IPv4
	OnlyIPv6    bool      // IPv6 in place of IPv4: nodes, pods and services have only IPv6 addresses
	Zones       int       // number of zones, assigned to the nodes in turn; 0: none
	Dir         string    // state and logs; empty: a new directory, removed by Close
	Bin         string    // the built programs, with those of Kubernetes in k8s/
	Install     string    // how Kubernetes itself starts our daemons, one of Installed; empty: they run beside it
	ByHand      bool      // with Install: only prepared; the caller installs, then calls Settle
	Switch      bool      // with Install: Open vSwitch runs in pods, too
	Containerd2 bool      // containerd 2 runs the containers, not Debian's 1.6
	First       bool      // switches start before everything else, like the kernel's
	Detach      bool      // the cluster outlives this process
	Log         io.Writer // progress; nil: none
}

// maxNodes is the capacity of one machine: a node takes about 200 MB.
const maxNodes = 20

// Cluster is a running Kubernetes.
type Cluster struct {
	*testbed.Bed
	log         io.Writer
	installed   string   // see Config
	switched    bool     // see Config.Switch
	families    []family // of IP; nodes with one address have it of the first
	zones       int
	containerd2 bool

	mu        sync.Mutex
	processes map[string]*testbed.Process // by node and name, those started by this process
}

// Up starts a cluster and waits until its nodes are ready and its DNS runs. On error it removes everything.
func Up(ctx context.Context, cfg Config) (_ *Cluster, err error) {
	if cfg.Nodes < 1 || cfg.Nodes > maxNodes {
		return nil, fmt.Errorf("cluster of %d nodes: want 1 to %d", cfg.Nodes, maxNodes)
	}
	if masters, known := Installed[cfg.Install]; cfg.Install != "" && (!known || masters > cfg.Nodes) {
		return nil, fmt.Errorf("cluster of %d nodes, installed by %q: want one of %s, and as many nodes", cfg.Nodes, cfg.Install, strings.Join(slices.Sorted(maps.Keys(Installed)), ", "))
	}
	if cfg.Install == "" && (cfg.ByHand || cfg.Switch) {
		return nil, errors.New("cluster that is not installed: nothing is by hand, and no switch in a pod")
	}
	if cfg.DualStack && cfg.OnlyIPv6 {
		return nil, errors.New("cluster of IPv6 only, and of IPv4 as well: want one of both")
	}
	c := &Cluster{log: cfg.Log, installed: cfg.Install, switched: cfg.Switch, containerd2: cfg.Containerd2, families: familiesOf(cfg), zones: cfg.Zones,
		processes: map[string]*testbed.Process{}}
	if c.log == nil {
		c.log = io.Discard
	}
	if c.Bed, err = testbed.New(ctx, testbed.Config{Nodes: cfg.Nodes, Mode: "kubernetes", Dir: cfg.Dir, Bin: cfg.Bin, First: cfg.First, OnlyIPv6: cfg.OnlyIPv6,
		Secure: cfg.Install == "", // an installation enables encryption itself
		Bare:   cfg.Switch, Detach: cfg.Detach, Log: cfg.Log}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Bed.DumpLogs(c.log)
			err = errors.Join(err, c.Close())
		}
	}()
	if err = c.run(ctx, c.steps(cfg)); err != nil {
		return nil, err
	}
	return c, nil
}

// step is a step of creating a cluster.
type step struct {
	name string
	run  func(context.Context) error
}

func (c *Cluster) steps(cfg Config) []step {
	steps := []step{{"control plane", c.startControl}, {"containers and kubelets", c.startNodes}}
	way := step{"way in from this machine", c.forward}
	switch {
	case cfg.ByHand:
		return append(steps, step{"preparation", c.prepare}, way)
	case cfg.Install != "":
		steps = append(steps, step{"preparation", c.prepare}, step{"network", c.install})
	default:
		steps = append(steps, step{"network", c.startNetwork})
	}
	return append(append(steps, c.last()...), way)
}

// last returns the steps after the network is installed.
func (c *Cluster) last() []step {
	return []step{{"nodes are ready", c.awaitNodes}, {"zones", c.labelZones}, {"cluster's DNS", c.startDNS}}
}

func (c *Cluster) run(ctx context.Context, steps []step) error {
	for _, s := range steps {
		started := time.Now()
		if err := s.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(c.log, "%s: %.1f s\n", s.name, time.Since(started).Seconds())
	}
	return nil
}

// Settle waits until the nodes of a cluster in which the caller has installed our daemons are ready, and starts
// its DNS.
func (c *Cluster) Settle(ctx context.Context) error {
	return c.run(ctx, append([]step{{"our daemons", c.AwaitInstalled}}, c.last()...))
}

// Open returns a cluster that another process started detached in dir.
func Open(dir string) (*Cluster, error) {
	bed, err := testbed.Open(dir)
	if err != nil {
		return nil, err
	}
	return &Cluster{Bed: bed, log: io.Discard, processes: map[string]*testbed.Process{}}, nil
}

// Close ends the cluster with all its processes, and removes its files.
func (c *Cluster) Close() error {
	err := c.Bed.Close()
	for _, n := range c.Nodes {
		err = errors.Join(err, os.RemoveAll(c.nodeDir(n)))
	}
	return errors.Join(err, c.removeGroups(), os.RemoveAll(c.file("")), os.RemoveAll(c.Kubeconfig()))
}

// Kubeconfig returns the path of an administrator's kubeconfig, for clients on this machine.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.Dir, "kubeconfig") }

// Kubectl runs kubectl on the first node, as administrator.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.control().Run(ctx, append([]string{c.tool("kubectl"), "--kubeconfig", c.file("admin.kubeconfig")}, args...)...)
}

// Process returns the last daemon of a name, such as containerd, kubelet or kube-apiserver, that this process has
// started on a node; nil if there is none.
func (c *Cluster) Process(n *testbed.Node, name string) *testbed.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.processes[n.Name+"/"+name]
}

// start starts a daemon and records it for Process.
func (c *Cluster) start(n *testbed.Node, name string, args ...string) (*testbed.Process, error) {
	p, err := n.Start(name, args...)
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.processes[n.Name+"/"+name] = p
	}
	return p, err
}

// Ended returns the node and name of each daemon that has ended, of those that this process has started.
func (c *Cluster) Ended() (ended []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, p := range c.processes {
		if p.Exited() {
			ended = append(ended, name)
		}
	}
	for _, n := range c.Nodes {
		for _, p := range []*testbed.Process{n.Netmaster(), n.Netplugin()} {
			if p != nil && p.Exited() {
				ended = append(ended, n.Name+"/"+p.Name)
			}
		}
	}
	slices.Sort(ended)
	return ended
}

// control returns the node of the control plane.
func (c *Cluster) control() *testbed.Node { return c.Nodes[0] }

// tool returns the path of a program of Kubernetes.
func (c *Cluster) tool(name string) string { return filepath.Join(c.Bin, "k8s", name) }

// file returns the path of a file of the control plane.
func (c *Cluster) file(name string) string { return filepath.Join(c.Dir, "kubernetes", name) }

// nodeDir returns the directory of a node's containers and their output.
func (c *Cluster) nodeDir(n *testbed.Node) string { return filepath.Join(c.Dir, n.Name+"-containers") }

// stepLimit is the time limit for a component to answer, on a busy machine.
const stepLimit = 3 * time.Minute

// await retries until there is no error or the time limit is over.
func await(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	return testkit.Poll(ctx, try)
}

// Shell returns a command to run on a node, with kubectl and netctl in its path and configured for the cluster.
func (c *Cluster) Shell(ctx context.Context, node string, run ...string) (*exec.Cmd, error) {
	for _, n := range c.Nodes {
		if n.Name == node {
			return n.Command(ctx, append([]string{"env", "PATH=" + c.tool("") + ":" + c.Bin + ":" + os.Getenv("PATH"),
				"KUBECONFIG=" + c.file("admin.kubeconfig"), "NETMASTER=" + c.NetmasterURL()}, run...)...), nil
		}
	}
	return nil, fmt.Errorf("no node %q; there are node1 to node%d", node, len(c.Nodes))
}

// Package testbed builds a cluster on one machine out of real parts.
//
// A node is a set of namespaces held by one process: its own network, mounts,
// host name and process ids, hence its own /run, /etc, /var, Open vSwitch and
// daemons. Two Linux bridges in a namespace of their own join the nodes: one
// carries management traffic (etcd, REST), the other the tunnels.
//
//	       fabric: mgmt bridge            vtep bridge
//	                |      |                |      |
//	node1: eth0 192.0.2.1  |   uplink--br-phy 198.51.100.1
//	                       |                       |
//	node2: eth0 192.0.2.2--+   uplink--br-phy 198.51.100.2
//
// With uplinks, a machine called outside plays the physical network of VLANs that
// the nodes' links eth1, eth2, ... lead to, see Outside.
//
// The tunnel address sits on the local port of an OVS bridge, br-phy, because
// the userspace datapath sends tunnelled packets only through OVS ports.
//
// A pod is a network namespace inside a node, attached by a real CNI runtime (cnitool) that executes the CNI
// binary; the testbed never calls the project's code. When the process that holds a node ends, the kernel ends
// everything on it: a bed leaves nothing behind, however its user ends.
package testbed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// maxNodes is limited by the host part of the underlay networks.
const maxNodes = 200

// Config describes a bed.
type Config struct {
	Nodes    int       // 1..200
	Uplinks  int       // links of each node to a physical network of VLANs
	OnlyIPv6 bool      // nodes have IPv6 addresses only
	Mode     string    // of the daemons: the orchestrator; empty: cni
	Dir      string    // state and logs; empty: a new directory, removed by Close
	Bin      string    // directory of the built binaries; empty: bin/ of the module
	First    bool      // switches, and servers of pods, have priority over everything else, as those of a kernel do
	Secure   bool      // the cluster is enforced: everything joins with a token
	Sealed   bool      // values in the store are encrypted; for secure beds
	Confined bool      // daemons run with the restrictions of their units
	Readers  bool      // switches read the routes of their nodes: required by drivers that do not pass routes to them
	Bare     bool      // nodes have no Open vSwitch: call Node.JoinTunnels after starting one
	Detach   bool      // the nodes outlive this process, until Close or Open(...).Close
	Log      io.Writer // progress, one line per step; nil: none
}

// Bed is a running cluster of nodes.
type Bed struct {
	Dir     string
	Bin     string
	Nodes   []*Node
	Outside *Outside // nil without uplinks

	fabric    *machine
	underlay  underlay
	mode      string
	secure    bool
	sealed    bool
	confined  bool
	log       io.Writer
	removeDir bool
}

// New starts nodes with their Open vSwitch, connected by the fabric, without the project's daemons. On error
// everything is removed.
func New(ctx context.Context, cfg Config) (_ *Bed, err error) {
	if cfg.Nodes < 1 || cfg.Nodes > maxNodes {
		return nil, fmt.Errorf("testbed: %d nodes: want 1 to %d", cfg.Nodes, maxNodes)
	}
	b := &Bed{Dir: cfg.Dir, Bin: cfg.Bin, underlay: underlayOf(cfg.OnlyIPv6), mode: cmp.Or(cfg.Mode, "cni"), secure: cfg.Secure, sealed: cfg.Sealed, confined: cfg.Confined, log: cfg.Log}
	if b.log == nil {
		b.log = io.Discard
	}
	if b.Bin == "" {
		if b.Bin, err = findBin(); err != nil {
			return nil, err
		}
	}
	if b.Dir == "" {
		if b.Dir, err = os.MkdirTemp("", "contiv-testbed-"); err != nil {
			return nil, err
		}
		b.removeDir = true
	} else if b.Dir, err = filepath.Abs(b.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.fabric, err = startMachine(ctx, "fabric", filepath.Join(b.Dir, "fabric"), cfg.Detach); err != nil {
		return nil, err
	}
	if _, err = b.fabric.Run(ctx, "sh", "-ec", fabricScript); err != nil {
		return nil, err
	}
	if cfg.Uplinks > 0 {
		if b.Outside, err = startOutside(ctx, b.Dir, cfg.Detach); err != nil {
			return nil, err
		}
	}
	if err = b.addNodes(ctx, cfg); err != nil {
		return nil, err
	}
	return b, b.save()
}

const fabricScript = `
ip link set lo up
for bridge in mgmt vtep; do ip link add $bridge type bridge; ip link set $bridge up; done`

// addNodes starts all nodes concurrently: a node mostly waits while it starts.
func (b *Bed) addNodes(ctx context.Context, cfg Config) error {
	b.Nodes = make([]*Node, cfg.Nodes)
	errs := make([]error, cfg.Nodes)
	var wg sync.WaitGroup
	for i := range b.Nodes {
		wg.Go(func() {
			b.Nodes[i], errs[i] = b.startNode(ctx, i+1, cfg)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	with := "each with its own Open vSwitch"
	if cfg.Bare {
		with = "without Open vSwitch"
	}
	fmt.Fprintf(b.log, "%d nodes up, %s; state in %s\n", cfg.Nodes, with, b.Dir)
	return nil
}

// Close ends every node with all its processes, and removes their files.
func (b *Bed) Close() error {
	var errs []error
	for _, n := range b.Nodes {
		if n != nil {
			errs = append(errs, n.remove())
		}
	}
	if b.Outside != nil {
		errs = append(errs, b.Outside.remove())
	}
	if b.fabric != nil {
		errs = append(errs, b.fabric.remove())
	}
	errs = append(errs, removeIfThere(b.stateFile()))
	if b.removeDir {
		errs = append(errs, removeIfThere(b.Dir))
	}
	return errors.Join(errs...)
}

// EtcdEndpoints lists the client URLs of the etcd members that netmasters embed.
func (b *Bed) EtcdEndpoints() []string { return b.each((*Node).StoreURL) }

// MasterURLs lists the REST URLs of all netmasters.
func (b *Bed) MasterURLs() []string {
	scheme := map[bool]string{true: "https", false: "http"}[b.secure]
	return b.each(func(n *Node) string { return scheme + "://" + n.At(9999) })
}

func (b *Bed) each(url func(*Node) string) []string {
	var all []string
	for _, n := range b.Nodes {
		all = append(all, url(n))
	}
	return all
}

// StartDaemons starts a netmaster with an embedded etcd member and a netplugin on every node, the latter with
// additional flags, and waits until all nodes are ready for pods and all netmasters are members of the store.
func (b *Bed) StartDaemons(ctx context.Context, netplugin ...string) error {
	for _, n := range b.Nodes {
		if err := n.StartNetmaster(); err != nil {
			return err
		}
	}
	if b.secure {
		if err := b.GiveTokens(ctx); err != nil {
			return err
		}
	}
	for _, n := range b.Nodes {
		if err := n.StartNetplugin(netplugin...); err != nil {
			return err
		}
	}
	for _, n := range b.Nodes {
		if err := n.WaitReady(ctx); err != nil {
			return err
		}
	}
	if b.secure {
		if err := b.waitVotes(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(b.log, "netmaster and netplugin run on %d nodes\n", len(b.Nodes))
	return nil
}

// Netctl runs netctl, against all netmasters. In a secure bed it runs as root of the first node with a netmaster,
// since there only root is authenticated without a login.
func (b *Bed) Netctl(ctx context.Context, args ...string) (out string, err error) {
	if !b.secure {
		return b.Nodes[0].netctl(ctx, strings.Join(b.MasterURLs(), ","), args)
	}
	for _, n := range b.Nodes {
		var failed *exec.ExitError
		if out, err = n.netctl(ctx, rootSocket, args); !errors.As(err, &failed) || failed.ExitCode() != netctlUnreachable {
			return out, err
		}
	}
	return out, err
}

// findBin returns the directory of the daemons: that of this program, as built by `make build-test`, or bin/
// beside the go.mod above the working directory, for tests.
// working directory, for tests.
func findBin() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if found, err := os.Stat(filepath.Join(filepath.Dir(self), "netplugin")); err == nil && found.Mode().IsRegular() { // in a checkout it is a directory
		return filepath.Dir(self), nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
			continue
		}
		bin := filepath.Join(dir, "bin")
		if _, err := os.Stat(filepath.Join(bin, "netplugin")); err != nil {
			return "", fmt.Errorf("testbed: the daemons are not built, run make build: %w", err)
		}
		return bin, nil
	}
	return "", fmt.Errorf("testbed: the daemons are neither beside %s nor in bin/ beside a go.mod above the working directory", self)
}

package cluster

import (
	"context"
	_ "embed" // configuration of nodes
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/contiv/netplugin/test/testbed"
)

//go:embed files/node.sh
var nodeScript string

//go:embed files/containerd.toml
var containerdConfig string

//go:embed files/containerd2.toml
var containerd2Config string

//go:embed files/kubelet.yaml
var kubeletConfig string

// startNodes starts the container runtimes of all nodes at once.
func (c *Cluster) startNodes(ctx context.Context) error {
	return c.eachNode(func(n *testbed.Node) error { return c.startNode(ctx, n) })
}

// eachNode calls do for all nodes at once.
func (c *Cluster) eachNode(do func(*testbed.Node) error) error {
	errs := make([]error, len(c.Nodes))
	var wg sync.WaitGroup
	for i, n := range c.Nodes {
		wg.Go(func() { errs[i] = do(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *Cluster) startNode(ctx context.Context, n *testbed.Node) error {
	if _, err := n.Run(ctx, "sh", "-ec", nodeScript, "sh", c.nodeDir(n), c.group(n)); err != nil {
		return err
	}
	if err := c.addFamily(ctx, n); err != nil {
		return err
	}
	containerd := containerdConfig
	if c.containerd2 {
		containerd = containerd2Config
	}
	for name, content := range map[string]string{
		"containerd.toml": containerd,
		"kubelet.yaml":    kubeletConfig + "cgroupRoot: /" + c.group(n) + "\nclusterDNS: ['" + c.first().dns + "']\n",
	} {
		if err := os.WriteFile(filepath.Join(c.nodeDir(n), name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	if err := c.StartContainerd(ctx, n); err != nil {
		return err
	}
	if _, err := n.Run(ctx, "ctr", "--namespace", "k8s.io", "images", "import", c.tool("images.tar")); err != nil {
		return err
	}
	return c.StartKubelet(n)
}

// StartContainerd starts a node's containerd and waits until it answers.
func (c *Cluster) StartContainerd(ctx context.Context, n *testbed.Node) error {
	path := os.Getenv("PATH") // its shim's as well
	if c.containerd2 {
		path = c.tool("containerd2") + ":" + path
	}
	if _, err := c.start(n, "containerd", "env", "PATH="+path, "containerd", "--config", filepath.Join(c.nodeDir(n), "containerd.toml")); err != nil {
		return err
	}
	return await(ctx, func() error {
		_, err := n.Run(ctx, "ctr", "version")
		return err
	})
}

// StartKubelet starts a node's kubelet.
func (c *Cluster) StartKubelet(n *testbed.Node) error {
	config := filepath.Join(c.nodeDir(n), "kubelet.kubeconfig")
	if err := c.writeKubeconfig(config, c.apiURL(), kubelet(n)); err != nil {
		return err
	}
	_, err := c.start(n, "kubelet", c.tool("kubelet"), "--config", filepath.Join(c.nodeDir(n), "kubelet.yaml"),
		"--kubeconfig", config, "--hostname-override", n.Name, "--node-ip", c.nodeAddresses(n))
	return err
}

// groupsRoot is the mount point of the kernel's control groups, with a folder for each hierarchy.
const groupsRoot = "/sys/fs/cgroup"

// containerGroups is the parent of the control groups that containerd creates; nodes and clusters on this machine
// share it.
const containerGroups = "k8s.io"

// group returns the name of a node's control group, in each hierarchy.
func (c *Cluster) group(n *testbed.Node) string { return filepath.Base(c.Dir) + "-" + n.Name }

// removeGroups removes the control groups of nodes that have ended.
func (c *Cluster) removeGroups() error {
	var errs []error
	for _, n := range c.Nodes {
		errs = append(errs, removeEmpty(c.group(n)))
	}
	return errors.Join(append(errs, removeEmpty(containerGroups))...)
}

// removeEmpty removes a group and its subgroups, in all hierarchies, except those with processes.
func removeEmpty(group string) error {
	roots, err := filepath.Glob(filepath.Join(groupsRoot, "*", group))
	if err != nil {
		return err
	}
	var errs []error
	for _, root := range roots {
		var all []string
		errs = append(errs, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				all = append(all, path)
			}
			return err
		}))
		for _, path := range slices.Backward(all) { // subgroups first
			if err := os.Remove(path); !errors.Is(err, syscall.EBUSY) && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

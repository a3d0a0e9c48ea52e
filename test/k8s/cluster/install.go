package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

// Installed are the variants of deploy/kubernetes for our daemons, with the number of netmasters of each.
var Installed = map[string]int{"one": 1, "three": 3}

// installation is the folder of the cluster's copy of deploy/kubernetes; kustomize does not read files outside of
// its folder.
const installation = "deploy/kubernetes"

// Files returns the directory with the copy, the top of its tree.
func (c *Cluster) Files() string { return c.file("") }

// prepare prepares what deploy/kubernetes expects: images on the nodes, some of them for the control plane.
func (c *Cluster) prepare(ctx context.Context) error {
	if err := c.eachNode(func(n *testbed.Node) error { return c.prepareForInstall(ctx, n) }); err != nil {
		return err
	}
	if err := c.writeInstallation(); err != nil {
		return err
	}
	masters := c.Nodes[:Installed[c.installed]]
	for _, n := range masters {
		if err := await(ctx, func() error {
			_, err := c.Kubectl(ctx, "label", "--overwrite", "node", n.Name, "node-role.kubernetes.io/control-plane=")
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// install installs our daemons with deploy/kubernetes, as users do.
func (c *Cluster) install(ctx context.Context) error {
	if c.switched {
		if err := c.startSwitches(ctx); err != nil {
			return err
		}
	}
	if _, err := c.Kubectl(ctx, "apply", "--kustomize", c.Installation("here")); err != nil {
		return err
	}
	return c.AwaitInstalled(ctx)
}

// startSwitches starts Open vSwitch in pods.
func (c *Cluster) startSwitches(ctx context.Context) error {
	if _, err := c.Kubectl(ctx, "apply", "--kustomize", c.Installation("ovs")); err != nil {
		return err
	}
	if err := c.AwaitSwitches(ctx); err != nil {
		return err
	}
	return c.eachNode(func(n *testbed.Node) error { return n.JoinTunnels(ctx) })
}

// Installation returns the path of a folder of deploy/kubernetes, or of "here", the variant of this cluster with
// its addresses.
func (c *Cluster) Installation(name string) string {
	return filepath.Join(c.file(installation), name)
}

// AwaitInstalled waits until all our daemons that should run are ready.
func (c *Cluster) AwaitInstalled(ctx context.Context) error {
	for _, what := range []string{"deployment/contiv-netmaster", "daemonset/contiv-netplugin"} {
		if _, err := c.Kubectl(ctx, "--namespace", "kube-system", "rollout", "status", what, "--timeout", stepLimit.String()); err != nil {
			return err
		}
	}
	return nil
}

// deployment returns the path of a file of deploy/kubernetes.
func (c *Cluster) deployment(name string) string {
	return filepath.Join(c.Bin, "..", "deploy", "kubernetes", name)
}

func (c *Cluster) prepareForInstall(ctx context.Context, n *testbed.Node) error {
	if _, err := n.Run(ctx, "sh", "-ec", "rm -f /etc/cni/net.d/*"); err != nil {
		return err
	}
	_, err := n.Run(ctx, "ctr", "--namespace", "k8s.io", "images", "import", filepath.Join(c.Bin, "contiv-images.tar"))
	return err
}

// writeInstallation copies deploy/kubernetes and adds a folder with the changes of a user: addresses.
func (c *Cluster) writeInstallation() error {
	if err := os.CopyFS(c.file(installation), os.DirFS(c.deployment(""))); err != nil {
		return err
	}
	if err := os.Mkdir(c.Installation("here"), 0o755); err != nil {
		return err
	}
	var peers, netmasters []string
	for _, n := range c.Nodes[:Installed[c.installed]] {
		peers = append(peers, n.Name+"=https://"+n.At(6667))
		netmasters = append(netmasters, "https://"+n.At(9999))
	}
	members := ""
	if len(peers) > 1 {
		members = "  - CONTIV_NETMASTER_EMBEDDED_ETCD_PEERS=" + strings.Join(peers, ",") + "\n"
	}
	kustomization := fmt.Sprintf(`resources: [../%s]
namespace: kube-system
configMapGenerator:
- name: contiv
  behavior: merge
  literals:
  - CONTIV_NETMASTER_K8S_API_SERVER=%s
%s  - CONTIV_NETPLUGIN_NETMASTERS=%s
patches:
- patch: |
    apiVersion: apps/v1
    kind: DaemonSet
    metadata: {name: contiv-netplugin, namespace: kube-system}
    spec:
      template:
        spec:
          containers:
          - name: netplugin
            env:
            - {name: CONTIV_NETPLUGIN_VTEP_IP, value: "%s", valueFrom: null}
`, c.installed, c.apiURL(), members, strings.Join(netmasters, ","), c.VTEPNetwork())
	return os.WriteFile(filepath.Join(c.Installation("here"), "kustomization.yaml"), []byte(kustomization), 0o644)
}

// AwaitSwitches waits until Open vSwitch is ready on every node where it runs in a pod.
func (c *Cluster) AwaitSwitches(ctx context.Context) error {
	// A daemon set with updates on deletion has no rollout status.
	_, err := c.Kubectl(ctx, "--namespace", "kube-system", "wait", "daemonset/contiv-ovs", "--timeout", stepLimit.String(),
		fmt.Sprintf("--for=jsonpath={.status.numberReady}=%d", len(c.Nodes)))
	if err != nil {
		said, _ := c.Kubectl(ctx, "--namespace", "kube-system", "logs", "--selector", "app=contiv-ovs", "--all-containers", "--prefix", "--tail=20")
		err = fmt.Errorf("%w\n%s", err, said)
	}
	return err
}

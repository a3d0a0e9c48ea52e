package cluster

import (
	"context"
	"os"
	"strings"

	"github.com/contiv/netplugin/test/k8s/images"
	"github.com/contiv/netplugin/test/testbed"
)

// InstallKubeProxy runs kube-proxy on every node, in a mode such as nftables, as in clusters made by kubeadm.
func (c *Cluster) InstallKubeProxy(ctx context.Context, mode string) error {
	const manifest = "kube-proxy.yaml"
	archive := c.file("kube-proxy.tar")
	if err := images.BuildKubeProxy(ctx, images.Sources{Bin: c.tool("")}, archive); err != nil {
		return err
	}
	if err := c.eachNode(func(n *testbed.Node) error {
		_, err := n.Run(ctx, "ctr", "--namespace", "k8s.io", "images", "import", archive)
		return err
	}); err != nil {
		return err
	}
	text, err := manifests.ReadFile("files/" + manifest)
	if err != nil {
		return err
	}
	filled := strings.NewReplacer("MODE", mode, "SERVER", c.apiURL()).Replace(string(text))
	if err := os.WriteFile(c.file(manifest), []byte(filled), 0o644); err != nil {
		return err
	}
	if err := c.applyFile(ctx, c.file(manifest)); err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, "--namespace", "kube-system", "rollout", "status", "daemonset/kube-proxy", "--timeout", stepLimit.String())
	return err
}

package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

// The reference for measurements of our daemons, on the same node: the CNI project's plugins for some pods, and
// kube-proxy.

// referenceConfig sorts before our configuration: a runtime uses the first one.
const referenceConfig = "/etc/cni/net.d/00-reference.conflist"

// ReferenceAddresses is the prefix of the addresses of pods attached by the CNI project's plugins.
const ReferenceAddresses = "10.99.0."

// Refer makes a node attach new pods with a plugin of the CNI project, bridge or ptp, with host-local. The runtime
// applies it after a moment. After Unrefer ours attaches new pods again; until then no other pod may end.
func (c *Cluster) Refer(ctx context.Context, n *testbed.Node, plugin string) error {
	config := `{"cniVersion":"1.0.0","name":"reference","plugins":[{"type":"` + plugin + `","bridge":"cni-ref","isGateway":true,
 "ipam":{"type":"host-local","subnet":"` + ReferenceAddresses + `0/24","dataDir":"/run/cni-ref","routes":[{"dst":"0.0.0.0/0"}]}}]}`
	_, err := n.Run(ctx, "sh", "-ec", `cp -n /usr/lib/cni/bridge /usr/lib/cni/ptp /usr/lib/cni/host-local /opt/cni/bin/
printf %s "$1" > "$2.new"
mv "$2.new" "$2"`, "sh", config, referenceConfig)
	return err
}

// Unrefer reverts Refer.
func (c *Cluster) Unrefer(ctx context.Context, n *testbed.Node) error {
	_, err := n.Run(ctx, "rm", "-f", referenceConfig)
	return err
}

// StartProxy starts kube-proxy on a node, in mode nftables. Its tables are in the node's kernel, which our pods'
// packets do not pass.
func (c *Cluster) StartProxy(n *testbed.Node) (*testbed.Process, error) {
	credentials, config := filepath.Join(c.nodeDir(n), "proxy.kubeconfig"), filepath.Join(c.nodeDir(n), "proxy.yaml")
	if err := c.writeKubeconfig(credentials, c.apiURL(), admin); err != nil {
		return nil, err
	}
	// If no timeouts and limits of the connection tracker are set, it writes no sysctl.
	err := os.WriteFile(config, []byte(strings.Join([]string{
		"apiVersion: kubeproxy.config.k8s.io/v1alpha1", "kind: KubeProxyConfiguration", "mode: nftables",
		"hostnameOverride: " + n.Name, "clientConnection: {kubeconfig: " + credentials + "}",
		"conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}", "",
	}, "\n")), 0o600)
	if err != nil {
		return nil, err
	}
	return c.start(n, "kube-proxy", c.tool("kube-proxy"), "--config", config)
}

package cluster

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

// What measurements compare our daemons with, on a node where both are: the CNI project's
// own plugins for some pods, and kube-proxy.

// referenceConfig sorts before ours: a runtime takes the first one.
const referenceConfig = "/etc/cni/net.d/00-reference.conflist"

// ReferenceAddresses begin the addresses of pods that the CNI project's plugins serve.
const ReferenceAddresses = "10.99.0."

// Refer has the pods that a node gets from now on served by a plugin of the CNI project, bridge or ptp,
// with host-local. It takes the runtime a moment. Ours serves those after Unrefer; until then no other
// pod may end.
func (c *Cluster) Refer(ctx context.Context, n *testbed.Node, plugin string) error {
	config := `{"cniVersion":"1.0.0","name":"reference","plugins":[{"type":"` + plugin + `","bridge":"cni-ref","isGateway":true,
 "ipam":{"type":"host-local","subnet":"` + ReferenceAddresses + `0/24","dataDir":"/run/cni-ref","routes":[{"dst":"0.0.0.0/0"}]}}]}`
	_, err := n.Run(ctx, "sh", "-ec", `cp -n /usr/lib/cni/bridge /usr/lib/cni/ptp /usr/lib/cni/host-local /opt/cni/bin/
printf %s "$1" > "$2.new"
mv "$2.new" "$2"`, "sh", config, referenceConfig)
	return err
}

// Unrefer ends what Refer began.
func (c *Cluster) Unrefer(ctx context.Context, n *testbed.Node) error {
	_, err := n.Run(ctx, "rm", "-f", referenceConfig)
	return err
}

// StartProxy starts kube-proxy on a node, in mode nftables. Its tables are in the node's kernel, where
// our pods' packets do not pass.
func (c *Cluster) StartProxy(n *testbed.Node) (*testbed.Process, error) {
	credentials, config := filepath.Join(c.nodeDir(n), "proxy.kubeconfig"), filepath.Join(c.nodeDir(n), "proxy.yaml")
	if err := c.writeKubeconfig(credentials, c.apiURL(), admin); err != nil {
		return nil, err
	}
	// Without times and limits of the connection tracker it writes no sysctl.
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

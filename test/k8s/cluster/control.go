package cluster

import (
	"context"
	"fmt"
)

// The store of Kubernetes; our daemons have another one.
const storeURL = "http://127.0.0.1:23790"

const apiPort = 6443

func (c *Cluster) apiURL() string { return "https://" + c.control().At(apiPort) }

// AuditLog returns the path of the API server's log of our daemons' requests, a JSON object per line.
func (c *Cluster) AuditLog() string { return c.file("audit.log") }

func (c *Cluster) startControl(ctx context.Context) error {
	if err := c.writeCredentials(); err != nil {
		return err
	}
	if err := c.writeKubeconfig(c.file("admin.kubeconfig"), c.apiURL(), admin); err != nil {
		return err
	}
	if err := c.writeManifest("audit.yaml"); err != nil {
		return err
	}
	n := c.control()
	if _, err := c.start(n, "kubernetes-etcd", "etcd", "--data-dir", c.file("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", storeURL, "--advertise-client-urls", storeURL, "--listen-peer-urls", "http://127.0.0.1:23800"); err != nil {
		return err
	}
	if err := c.StartAPIServer(ctx); err != nil {
		return err
	}
	if _, err := c.start(n, "kube-controller-manager", c.tool("kube-controller-manager"),
		"--kubeconfig", c.file("admin.kubeconfig"), "--leader-elect=false", "--bind-address=127.0.0.1",
		"--service-account-private-key-file", c.file("server.key"), "--root-ca-file", c.authority(),
		"--use-service-account-credentials=false"); err != nil {
		return err
	}
	if _, err := c.start(n, "kube-scheduler", c.tool("kube-scheduler"), "--kubeconfig", c.file("admin.kubeconfig"),
		"--leader-elect=false", "--bind-address=127.0.0.1"); err != nil {
		return err
	}
	return c.applyFile(ctx, c.tool("clusternetworkpolicies.yaml")) // the kind of object
}

// StartAPIServer starts the API server and waits until it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	n := c.control()
	key := c.file("server.key")
	server, err := c.start(n, "kube-apiserver", c.tool("kube-apiserver"),
		"--etcd-servers", storeURL, "--advertise-address", n.MgmtIP, "--secure-port", fmt.Sprint(apiPort),
		"--tls-cert-file", c.authority(), "--tls-private-key-file", key, "--cert-dir", c.file("certificates"), "--service-cluster-ip-range", c.serviceRanges(),
		"--token-auth-file", c.file("tokens.csv"), "--authorization-mode=Node,RBAC", "--allow-privileged",
		"--service-account-key-file", key, "--service-account-signing-key-file", key,
		"--service-account-issuer=https://"+serverName, "--kubelet-preferred-address-types=InternalIP",
		"--audit-policy-file", c.file("audit.yaml"), "--audit-log-path", c.AuditLog(), "--audit-log-mode=batch")
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	return await(ctx, func() error {
		if server.Exited() {
			err := fmt.Errorf("kube-apiserver has ended, see %s", n.LogFile(server.Name))
			stop(err)
			return err
		}
		_, err := c.Kubectl(ctx, "get", "--raw", "/readyz")
		return err
	})
}

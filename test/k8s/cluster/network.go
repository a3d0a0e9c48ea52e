package cluster

import (
	"context"
	_ "embed" // contiv.sh

	"encoding/json"
	"fmt"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniinstall"
	"github.com/contiv/netplugin/test/testbed"
)

//go:embed files/contiv.sh
var contivScript string

// controller is our daemons' user at the API server.
var controller = user{"contiv", "contiv"}

// startNetwork starts our daemons as the only network of the cluster. They create the networks of pods and nodes
// themselves.
func (c *Cluster) startNetwork(ctx context.Context) error {
	if err := c.applyFile(ctx, c.deployment("base/rbac.yaml")); err != nil {
		return err
	}
	if err := c.apply(ctx, "contiv.yaml"); err != nil {
		return err
	}
	config, err := c.contivConfig()
	if err != nil {
		return err
	}
	for _, n := range c.Nodes {
		if _, err := n.Run(ctx, "sh", "-ec", contivScript, "sh", config, n.Tool("contivk8s"), cniinstall.Conf); err != nil {
			return err
		}
	}
	return c.StartDaemons(ctx)
}

// contivConfig returns the content of contiv.json, the configuration for our daemons' access to the API server.
func (c *Cluster) contivConfig() (string, error) {
	token, err := c.token(controller)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]string{
		"K8S_API_SERVER": c.apiURL(), "K8S_CA": c.authority(), "K8S_TOKEN": token, "SVC_SUBNET": c.first().services,
	})
	return string(data), err
}

// awaitNodes waits until every node is ready for pods.
func (c *Cluster) awaitNodes(ctx context.Context) error {
	for _, n := range c.Nodes {
		if err := c.awaitNode(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) awaitNode(ctx context.Context, n *testbed.Node) error {
	return await(ctx, func() error {
		ready, err := c.Kubectl(ctx, "get", "node", n.Name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if err == nil && ready != "True" {
			why, _ := c.Kubectl(ctx, "get", "node", n.Name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].message}`)
			err = fmt.Errorf("node %s is not ready: %s", n.Name, why)
		}
		return err
	})
}

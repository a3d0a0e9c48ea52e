package cluster

import (
	"context"
	_ "embed" // contiv.sh

	"encoding/json"
	"fmt"

	"github.com/contiv/netplugin/test/testbed"
)

//go:embed files/contiv.sh
var contivScript string

// controller is whom the API server knows our daemons as.
var controller = user{"contiv", "contiv"}

// startNetwork starts our daemons, as the only network that the cluster has, and
// makes the networks that its pods and nodes are in.
func (c *Cluster) startNetwork(ctx context.Context) error {
	if err := c.apply(ctx, "contiv.yaml"); err != nil {
		return err
	}
	config, err := c.contivConfig()
	if err != nil {
		return err
	}
	for _, n := range c.Nodes {
		if _, err := n.Run(ctx, "sh", "-ec", contivScript, "sh", config, n.Tool("contivk8s")); err != nil {
			return err
		}
	}
	if err := c.StartDaemons(ctx); err != nil {
		return err
	}
	for _, network := range [][]string{
		{"-t", "default", "-s", podRange, "-g", podGateway, "default-net"},
		{"-t", "default", "-n", "infra", "-s", nodeRange, "-g", nodeGateway, "contivh1"},
	} {
		if _, err := c.Netctl(ctx, append([]string{"network", "create"}, network...)...); err != nil {
			return err
		}
	}
	return nil
}

// contivConfig is the content of contiv.json, by which our daemons find the API server.
func (c *Cluster) contivConfig() (string, error) {
	token, err := c.token(controller)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]string{
		"K8S_API_SERVER": c.apiURL(), "K8S_CA": c.authority(), "K8S_TOKEN": token, "SVC_SUBNET": serviceRange,
	})
	return string(data), err
}

// awaitNodes waits until every node can take pods.
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

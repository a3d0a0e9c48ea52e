package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

// PodImage is the image of tests' pods: it waits.
const PodImage = "registry.k8s.io/e2e-test-images/agnhost:2.63.0"

// Pod is a pod of namespace default, in whose network namespace programs of its node can run.
type Pod struct {
	Name string
	IP   string // its first address
	Node *testbed.Node

	netns string // path on the node
}

// StartPod starts a pod on a node and waits until it is ready.
func (c *Cluster) StartPod(ctx context.Context, name string, n *testbed.Node) (*Pod, error) {
	overrides, err := json.Marshal(map[string]any{"spec": map[string]any{"nodeName": n.Name, "terminationGracePeriodSeconds": 0}})
	if err != nil {
		return nil, err
	}
	if err := await(ctx, func() error { // a new namespace has no service account yet
		_, err := c.Kubectl(ctx, "run", name, "--image", PodImage, "--restart=Never", "--overrides", string(overrides), "--", "pause")
		return err
	}); err != nil {
		return nil, err
	}
	if _, err := c.Kubectl(ctx, "wait", "pod/"+name, "--for=condition=Ready", "--timeout", stepLimit.String()); err != nil {
		return nil, err
	}
	p := &Pod{Name: name, Node: n}
	if p.IP, err = c.Kubectl(ctx, "get", "pod", name, "-o", "jsonpath={.status.podIP}"); err != nil {
		return nil, err
	}
	out, err := n.Run(ctx, "sh", "-c", `for f in /run/netns/cni-*; do ! nsenter --net=$f ip -o address show eth0 | grep -qw "$1" || echo $f; done`, "sh", p.IP)
	if p.netns = strings.TrimSpace(out); err != nil || len(strings.Fields(out)) != 1 {
		return nil, fmt.Errorf("network namespace of pod %s with %s on %s: %q, %w", name, p.IP, n.Name, out, err)
	}
	return p, nil
}

// Run runs a program of the node in the pod's network namespace.
func (p *Pod) Run(ctx context.Context, args ...string) (string, error) {
	return p.Node.Run(ctx, p.enter(args)...)
}

// Start is Run for a program that keeps running; its output is in a log of that name on the node.
func (p *Pod) Start(name string, args ...string) (*testbed.Process, error) {
	return p.Node.Start(name, p.enter(args)...)
}

func (p *Pod) enter(args []string) []string {
	return append([]string{"nsenter", "--net=" + p.netns, "--"}, args...)
}

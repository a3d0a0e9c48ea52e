package k8s

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/contiv/netplugin/objdb/ledger"
)

// Two things keep pods off a node until its agent can attach them. Node creators may set a taint, which is
// needed with container runtimes before containerd 2.1, because these do not ask the plugin whether it is
// ready. And a cloud controller may report that the node has no network, for which Kubernetes sets a taint of
// its own: the controller waits for routes, which our pods do not need.
const startupTaint = "node.contiv.io/agent-not-ready"

// readyAgain is the interval of checks for the agent of a tainted node.
const readyAgain = 2 * time.Second

// taintReconciler admits pods to nodes with ready agents.
func (c *Controller) taintReconciler() *reconciler {
	nodes := c.informers.Core().V1().Nodes()
	return &reconciler{
		kind: "startup taint", workers: 1, follows: []followed{{informer: nodes.Informer(), concerns: waiting}},
		known: func(ledger.Reader) ([]string, error) { return nil, nil }, // the state has no records of it
		reconcile: func(ctx context.Context, name string) (time.Duration, error) {
			node, err := nodes.Lister().Get(name)
			if apierrors.IsNotFound(err) || err == nil && waiting(node) == nil {
				return 0, nil
			}
			if err != nil {
				return 0, err
			}
			ready, err := c.cfg.ReadyAgents(ctx)
			if err != nil || !slices.Contains(ready, name) {
				return readyAgain, err
			}
			return 0, errors.Join(c.untaint(ctx, node), c.connect(ctx, node))
		},
	}
}

// waiting returns the name of a node if something keeps pods off it.
func waiting(object any) []string {
	node, ok := object.(*corev1.Node)
	if !ok || !slices.ContainsFunc(node.Spec.Taints, isStartup) && !slices.ContainsFunc(node.Status.Conditions, isWithoutNetwork) {
		return nil
	}
	return []string{node.Name}
}

func isWithoutNetwork(c corev1.NodeCondition) bool {
	return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionTrue
}

func isStartup(t corev1.Taint) bool { return t.Key == startupTaint }

// untaint removes the taint from this version of the node. If the node has changed meanwhile, it returns an error,
// and is retried.
func (c *Controller) untaint(ctx context.Context, node *corev1.Node) error {
	if !slices.ContainsFunc(node.Spec.Taints, isStartup) {
		return nil
	}
	left := slices.DeleteFunc(slices.Clone(node.Spec.Taints), isStartup)
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": node.ResourceVersion},
		"spec":     map[string]any{"taints": left},
	})
	if err != nil {
		return err
	}
	if _, err := c.cfg.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("take %s off: %w", startupTaint, err)
	}
	c.cfg.Log.WithField("node", node.Name).Info("kubernetes: the agent is ready, the node takes pods")
	return nil
}

// connect sets the condition that the node has a network, if it says otherwise.
func (c *Controller) connect(ctx context.Context, node *corev1.Node) error {
	if !slices.ContainsFunc(node.Status.Conditions, isWithoutNetwork) {
		return nil
	}
	now := metav1.Now()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse,
		Reason: "ContivIsReady", Message: "the agent of the node can attach pods", LastHeartbeatTime: now, LastTransitionTime: now}}}})
	if err != nil {
		return err
	}
	if _, err := c.cfg.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return fmt.Errorf("condition %s: %w", corev1.NodeNetworkUnavailable, err)
	}
	c.cfg.Log.WithField("node", node.Name).Info("kubernetes: the agent is ready, the node has a network")
	return nil
}

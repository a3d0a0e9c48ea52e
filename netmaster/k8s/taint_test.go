package k8s

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/test/testkit"
)

func TestANodeTakesPodsWhenItsAgentIsReady(t *testing.T) {
	w := newWorld(t)
	var asked atomic.Int64
	var ready atomic.Bool
	agents := func(context.Context) ([]string, error) {
		asked.Add(1)
		if ready.Load() {
			return []string{"n2", "n1"}, nil
		}
		return []string{"n2"}, nil
	}
	other := corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}
	n := node("n1", "192.0.2.1")
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "NoRouteCreated"}}
	n.Spec.Taints = []corev1.Taint{{Key: startupTaint, Effect: corev1.TaintEffectNoExecute}, other}
	_, err := w.client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
	w.must(n, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- New(Config{Client: w.client, ReadyAgents: agents, Log: testkit.Quiet()}, w.ledger).Run(ctx)
	}()
	defer func() { stop(); <-ended }()
	taints := func() []corev1.Taint {
		n, err := w.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		w.must(n, err)
		return n.Spec.Taints
	}
	w.eventually(func() error {
		if asked.Load() == 0 {
			return fmt.Errorf("nobody has asked which agents are ready")
		}
		return nil
	})
	if len(taints()) != 2 {
		t.Errorf("taints %v before the agent is ready", taints())
	}
	hasNetwork := func() bool {
		n, err := w.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
		w.must(n, err)
		if len(n.Status.Conditions) != 2 {
			t.Errorf("conditions %v", n.Status.Conditions)
		}
		return !slices.ContainsFunc(n.Status.Conditions, isWithoutNetwork)
	}
	if hasNetwork() {
		t.Error("it has a network before the agent is ready")
	}
	ready.Store(true)
	w.eventually(func() error {
		if diff := cmp.Diff([]corev1.Taint{other}, taints()); diff != "" {
			return fmt.Errorf("taints: %s", diff)
		}
		if !hasNetwork() {
			return errors.New("it has no network")
		}
		return nil
	})
}

package k8s

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// epochs are the epochs of the nodes' switches.
type epochs struct {
	mu sync.Mutex
	of map[string]mastercfg.K8sEnforced
}

// set sets a node's report: its epoch, and the refused policies.
func (e *epochs) set(node string, number uint32, refused ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	said := mastercfg.K8sEnforced{Number: number}
	for _, id := range refused {
		if said.Refused == nil {
			said.Refused = map[string]string{}
		}
		said.Refused[id] = "too many rules"
	}
	e.of[node] = said
}

func (e *epochs) all(context.Context) (map[string]mastercfg.K8sEnforced, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.of), nil
}

// nodes creates the cluster's nodes.
func (w *world) nodes(names ...string) {
	w.Helper()
	for _, name := range names {
		w.must(w.client.CoreV1().Nodes().Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
	}
}

// appliesConditions lets the fake apply conditions, unchanged: it does not support apply.
func (w *world) appliesConditions() {
	w.policies.PrependReactor("patch", clusterPolicyResource, func(action kubetesting.Action) (bool, runtime.Object, error) {
		patch := action.(kubetesting.PatchAction)
		var applied v1alpha2.ClusterNetworkPolicy
		if err := json.Unmarshal(patch.GetPatch(), &applied); err != nil || patch.GetSubresource() != "status" || applied.Kind != "ClusterNetworkPolicy" {
			return true, nil, fmt.Errorf("patch %s of %q: %w", patch.GetPatch(), patch.GetSubresource(), err)
		}
		object, err := w.policies.Tracker().Get(patch.GetResource(), "", patch.GetName())
		if err != nil {
			return true, nil, err
		}
		policy := object.DeepCopyObject().(*v1alpha2.ClusterNetworkPolicy)
		policy.Status = applied.Status
		return true, policy, w.policies.Tracker().Update(patch.GetResource(), policy, "")
	})
}

// A ClusterNetworkPolicy is enforced when the switches of all nodes with subjects have the epoch of its present
// rules.
func TestAPolicyIsEnforcedWhenAllNodesWithSubjectsEnforceIt(t *testing.T) {
	w := newWorld(t)
	w.nodes("node1", "node2")
	w.served().Store(true)
	policies := w.policies.PolicyV1alpha2().ClusterNetworkPolicies()
	w.appliesConditions()
	w.pod("web0", "u0", "node1", nil)
	w.pod("web1", "u1", "node2", nil)
	policy := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "guard", Generation: 1}, Spec: v1alpha2.ClusterNetworkPolicySpec{Tier: v1alpha2.AdminTier,
		Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}}, Ingress: []ingress{{Action: "Deny", From: []from{{Namespaces: &metav1.LabelSelector{}}}}}}}
	w.must(policies.Create(t.Context(), policy, metav1.CreateOptions{}))
	c := w.controller()
	var full atomic.Bool // the store refuses writes
	reconcile := c.policies.reconcile
	c.policies.reconcile = func(ctx context.Context, key string) (time.Duration, error) {
		if key == writeAll && full.Load() {
			return 0, errors.New("the store takes nothing")
		}
		return reconcile(ctx, key)
	}
	stop := w.run(c)
	wants := func(status metav1.ConditionStatus, message string) *v1alpha2.ClusterNetworkPolicy {
		t.Helper()
		var now *v1alpha2.ClusterNetworkPolicy
		w.eventually(func() (err error) {
			if now, err = policies.Get(t.Context(), "guard", metav1.GetOptions{}); err != nil {
				return err
			}
			got := now.Status.Conditions
			if len(got) != 1 || got[0].Type != conditionEnforced || got[0].Status != status || got[0].Message != message || got[0].ObservedGeneration != now.Generation {
				return fmt.Errorf("conditions %+v", got)
			}
			return nil
		})
		return now
	}
	wants(metav1.ConditionFalse, "on 0 of 2 nodes with subjects; not on node1, node2")
	w.wantClasses(map[string]string{"web0": "any", "web1": "any"}, ofClusterPolicy+"guard")
	epoch := w.epoch()
	w.enforced.set("node1", epoch)
	wants(metav1.ConditionFalse, "on 1 of 2 nodes with subjects; not on node2")
	w.enforced.set("node2", epoch)
	wants(metav1.ConditionTrue, "on all nodes with subjects: 2")

	// A switch that had all rules may have no room for them later.
	w.enforced.set("node1", epoch, ofClusterPolicy+"guard")
	wants(metav1.ConditionFalse, "on 1 of 2 nodes with subjects; not on node1")
	w.wantTroubles(c, "clusternetworkpolicy guard PolicyNotEnforced")
	w.enforced.set("node1", epoch)
	now := wants(metav1.ConditionTrue, "on all nodes with subjects: 2")
	w.wantTroubles(c, []string{}...)

	now = now.DeepCopy()
	now.Generation, now.Spec.Priority = 2, 5
	w.must(policies.Update(t.Context(), now, metav1.UpdateOptions{}))
	wants(metav1.ConditionFalse, "on 0 of 2 nodes with subjects; not on node1, node2")
	for _, node := range []string{"node1", "node2"} {
		w.enforced.set(node, w.epoch())
	}
	wants(metav1.ConditionTrue, "on all nodes with subjects: 2")

	// Until the present rules are written, the condition is not changed.
	now, err := policies.Get(t.Context(), "guard", metav1.GetOptions{})
	w.must(now, err)
	now = now.DeepCopy()
	now.Generation, now.Spec.Priority = 3, 6
	full.Store(true)
	w.must(policies.Update(t.Context(), now, metav1.UpdateOptions{}))
	w.eventually(func() error {
		c.policies.mu.Lock()
		defer c.policies.mu.Unlock()
		if got := c.policies.clusterSpecs["guard"].generation; got != 3 {
			return fmt.Errorf("generation %d is translated", got)
		}
		return nil
	})
	w.eventually(func() error {
		if s := c.State(t.Context()); s.Waiting == 0 {
			return errors.New("nothing waits, though the store takes nothing")
		}
		return nil
	})
	w.must((&reports{policies: c.policies, done: map[string]uint32{}}).reportAll(t.Context()))
	now, err = policies.Get(t.Context(), "guard", metav1.GetOptions{})
	w.must(now, err)
	if got := now.Status.Conditions[0].ObservedGeneration; got != 2 {
		t.Errorf("condition of generation %d, which is not written", got)
	}
	full.Store(false)
	wants(metav1.ConditionFalse, "on 0 of 2 nodes with subjects; not on node1, node2")
	w.eventually(func() error {
		if s := c.State(t.Context()); s.Waiting > 0 {
			return fmt.Errorf("%d wait, though all is written", s.Waiting)
		}
		return nil
	})

	// A policy written by an earlier version has no epoch: any will do.
	stop()
	key := mastercfg.K8sPolicyPrefix + ofClusterPolicy + "guard"
	w.must(w.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		record, err := ledger.Read[mastercfg.K8sPolicy](tx, key)
		if err != nil {
			return err
		}
		record.Epoch = 0
		return ledger.Write(tx, key, record)
	}))
	w.follow()
	wants(metav1.ConditionTrue, "on all nodes with subjects: 2")
}

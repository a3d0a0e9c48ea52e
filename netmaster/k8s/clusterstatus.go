package k8s

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// conditionEnforced is True when the switches of all nodes that have subjects of a
// ClusterNetworkPolicy do what it says.
const conditionEnforced = "contiv.io/Enforced"

// reportEvery is the time between reports: a policy's status is not written more often.
const reportEvery = 5 * time.Second

// report keeps the conditions of ClusterNetworkPolicies true until ctx ends. A policy is looked at
// until it is enforced, and again when it says something else.
func (p *policies) report(ctx context.Context) {
	done := map[string]uint32{} // epochs of policies that are known to be enforced, by name
	for pause(ctx, p.reportEvery) == nil {
		for _, policy := range p.cluster.list() {
			if err := p.reportOne(ctx, policy, done); err != nil && ctx.Err() == nil {
				p.cfg.Log.WithError(err).WithField("policy", policy.Name).Warn("kubernetes: the status of a ClusterNetworkPolicy is not written")
			}
		}
	}
}

func (p *policies) reportOne(ctx context.Context, policy *v1alpha2.ClusterNetworkPolicy, done map[string]uint32) error {
	var record mastercfg.K8sPolicy
	err := p.ledger.View(func(r ledger.Reader) (err error) {
		record, err = ledger.Read[mastercfg.K8sPolicy](r, mastercfg.K8sPolicyPrefix+ofClusterPolicy+policy.Name)
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return nil // it is about to be translated
	}
	before := meta.FindStatusCondition(policy.Status.Conditions, conditionEnforced)
	if err != nil || done[policy.Name] == record.Epoch && before != nil && before.ObservedGeneration == policy.Generation {
		return err
	}
	nodes := p.nodesOf(record)
	var missing []string
	for _, node := range nodes {
		has, err := p.cfg.EnforcedEpoch(ctx, node)
		if err != nil {
			return err
		}
		if has == 0 || has < record.Epoch {
			missing = append(missing, node)
		}
	}
	now := enforced(nodes, missing)
	now.ObservedGeneration = policy.Generation
	if err := p.writeCondition(ctx, policy, before, now); err != nil {
		return err
	}
	if delete(done, policy.Name); missing == nil {
		done[policy.Name] = record.Epoch
	}
	return nil
}

// enforced is the condition of a policy about pods on nodes, some of which do not enforce it yet.
func enforced(nodes, missing []string) metav1.Condition {
	if missing == nil {
		return metav1.Condition{Type: conditionEnforced, Status: metav1.ConditionTrue, Reason: "Enforced",
			Message: fmt.Sprintf("on all nodes with subjects: %d", len(nodes))}
	}
	const some = 5
	return metav1.Condition{Type: conditionEnforced, Status: metav1.ConditionFalse, Reason: "Pending",
		Message: fmt.Sprintf("on %d of %d nodes with subjects; not on %s", len(nodes)-len(missing), len(nodes), strings.Join(missing[:min(some, len(missing))], ", "))}
}

// nodesOf lists the nodes that have subjects of a policy.
func (p *policies) nodesOf(record mastercfg.K8sPolicy) (nodes []string) {
	subjects := map[uint16]bool{}
	for _, r := range record.Rules {
		for _, class := range r.Subjects {
			subjects[class] = true
		}
	}
	pods, err := p.pods.List(labels.Everything())
	if err != nil { // of a cache it never fails
		p.cfg.Log.WithError(err).Error("kubernetes: list pods")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pod := range pods {
		if class, _ := p.engine.Class(pod.Namespace, pod.Name); subjects[class] {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// writeCondition writes one condition and leaves those of others alone.
func (p *policies) writeCondition(ctx context.Context, policy *v1alpha2.ClusterNetworkPolicy, before *metav1.Condition, now metav1.Condition) error {
	now.LastTransitionTime = metav1.Now()
	if before != nil {
		if before.Status == now.Status {
			now.LastTransitionTime = before.LastTransitionTime
		}
		if *before == now {
			return nil
		}
	}
	patch, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha2.GroupVersion.String(), "kind": "ClusterNetworkPolicy",
		"metadata": map[string]any{"name": policy.Name, "uid": policy.UID}, // of another of its name it is not
		"status":   map[string]any{"conditions": []metav1.Condition{now}},
	})
	if err != nil {
		return err
	}
	force := true
	_, err = p.cfg.PolicyClient.PolicyV1alpha2().ClusterNetworkPolicies().Patch(ctx, policy.Name, types.ApplyPatchType, patch,
		metav1.PatchOptions{FieldManager: "contiv-netmaster", Force: &force}, "status")
	return err
}

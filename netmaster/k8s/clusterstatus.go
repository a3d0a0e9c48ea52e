package k8s

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// conditionEnforced is True when the switches of all nodes that apply a ClusterNetworkPolicy enforce it: those with subjects, and
// in forwarding mode bridge those that receive what its subjects flood (floods.go).
const conditionEnforced = "contiv.io/Enforced"

// reportEvery is the interval of reports: a policy's status is not written more often.
const reportEvery = 5 * time.Second

// spec identifies a version of a policy's spec, also against another policy with the same name.
type spec struct {
	uid        types.UID
	generation int64
}

func specOf(policy *v1alpha2.ClusterNetworkPolicy) spec { return spec{policy.UID, policy.Generation} }

// reports has what was reported about policies, and about objects that nodes do not serve.
type reports struct {
	*policies
	done         map[string]uint32     // epochs of ClusterNetworkPolicies that are known to be enforced, by name
	refused      map[string]string     // reported reasons why switches do not enforce policies, by policy
	toldOf       map[string]types.UID  // UIDs of these policies; another policy may have the name since
	recovered    map[string]bool       // policies reported as enforced by all switches again, until their record in the store is removed
	nodeProblems map[nodeObject]string // reported problems of nodes
}

func (p *policies) newReports() *reports {
	return &reports{
		policies: p, done: map[string]uint32{}, refused: map[string]string{}, toldOf: map[string]types.UID{},
		recovered: map[string]bool{},
	}
}

// report updates the conditions of ClusterNetworkPolicies until ctx ends, and reports policies that switches refuse. A
// ClusterNetworkPolicy is checked until it is enforced, and again when its spec changes or it is refused.
func (p *policies) report(ctx context.Context) {
	r := p.newReports()
	for pause(ctx, p.reportEvery) == nil {
		if failed, err := r.reportAll(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Log.WithError(err).WithField("policies", failed).Warn("kubernetes: what switches do of policies is not reported")
		}
	}
}

// reportAll writes the condition of each unreported policy. It returns the number of failures and the last error.
func (r *reports) reportAll(ctx context.Context) (failed int, err error) {
	nodes, err := r.readEnforced(ctx)
	if err != nil {
		return 0, err
	}
	r.reportNodeProblems(nodes)
	told := r.reportRefused(ctx, nodes)
	look, records, err := r.unreported()
	if err = errors.Join(told, err); len(look) == 0 {
		return 0, err
	}
	var flooded floods
	if unread := r.ledger.View(func(state ledger.Reader) (err error) {
		flooded, err = r.readFloods(state)
		return err
	}); unread != nil {
		return len(look), errors.Join(err, unread)
	}
	nodesOf, heardBy := r.nodesByClass(), r.heardByClass(flooded)
	for i, policy := range look {
		on := applying(nodesWith(records[i], nodesOf), hearing(records[i], heardBy))
		if one := r.reportPolicy(ctx, policy, on, records[i].Epoch, nodes); one != nil {
			failed, err = failed+1, errors.Join(told, one)
		}
	}
	return failed, err
}

// readEnforced reads what the nodes of the cluster have programmed
// (oper/k8s-epoch/). Records of removed nodes are ignored.
func (p *policies) readEnforced(ctx context.Context) (map[string]mastercfg.K8sEnforced, error) {
	all, err := p.cfg.EnforcedPolicies(ctx)
	maps.DeleteFunc(all, func(name string, _ mastercfg.K8sEnforced) bool {
		_, err := p.nodes.Get(name)
		return apierrors.IsNotFound(err)
	})
	return all, err
}

// unreported returns the policies to check, and their records.
// Policies whose present spec is not written yet are checked later.
func (r *reports) unreported() (look []*v1alpha2.ClusterNetworkPolicy, records []mastercfg.K8sPolicy, err error) {
	r.mu.Lock()
	written := r.written // replaced, not changed, by each write
	r.mu.Unlock()
	maps.DeleteFunc(r.done, func(name string, _ uint32) bool { _, there := written[name]; return !there })
	err = r.ledger.View(func(state ledger.Reader) error {
		for _, policy := range r.cluster.list() {
			if now, there := written[policy.Name]; !there || now != specOf(policy) {
				continue
			}
			record, err := ledger.Read[mastercfg.K8sPolicy](state, mastercfg.K8sPolicyPrefix+ofClusterPolicy+policy.Name)
			if err != nil {
				continue // it applies to no pod, or is about to be translated again
			}
			epoch, isDone := r.done[policy.Name]
			before := meta.FindStatusCondition(policy.Status.Conditions, conditionEnforced)
			if !isDone || epoch != record.Epoch || before == nil || before.ObservedGeneration != policy.Generation {
				look, records = append(look, policy), append(records, record)
			}
		}
		return nil
	})
	return look, records, err
}

func (r *reports) reportPolicy(ctx context.Context, policy *v1alpha2.ClusterNetworkPolicy, on appliedOn, epoch uint32, said map[string]mastercfg.K8sEnforced) error {
	var missing []string
	for _, node := range on.nodes {
		if !said[node].Enforces(ofClusterPolicy+policy.Name, epoch) {
			missing = append(missing, node)
		}
	}
	now := on.enforced(missing)
	now.ObservedGeneration = policy.Generation
	if err := r.writeCondition(ctx, policy, meta.FindStatusCondition(policy.Status.Conditions, conditionEnforced), now); err != nil {
		return fmt.Errorf("%s: %w", policy.Name, err)
	}
	if delete(r.done, policy.Name); missing == nil {
		r.done[policy.Name] = epoch
	}
	return nil
}

// appliedOn are the nodes that apply a policy.
type appliedOn struct {
	nodes []string
	with  string // what is on them
}

// applying returns the nodes with subjects of a policy, and those on which floods of its subjects are received.
func applying(subjects, hearers []string) appliedOn {
	all := slices.Concat(subjects, hearers)
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > len(subjects) {
		return appliedOn{all, "subjects, or endpoints that receive what these flood"}
	}
	return appliedOn{subjects, "subjects"}
}

// enforced returns the condition of a policy that missing nodes do not enforce yet.
func (on appliedOn) enforced(missing []string) metav1.Condition {
	if missing == nil {
		return metav1.Condition{Type: conditionEnforced, Status: metav1.ConditionTrue, Reason: "Enforced",
			Message: fmt.Sprintf("on all nodes with %s: %d", on.with, len(on.nodes))}
	}
	const some = 5
	return metav1.Condition{Type: conditionEnforced, Status: metav1.ConditionFalse, Reason: "Pending",
		Message: fmt.Sprintf("on %d of %d nodes with %s; not on %s", len(on.nodes)-len(missing), len(on.nodes), on.with, strings.Join(missing[:min(some, len(missing))], ", "))}
}

// nodesByClass returns the nodes with pods of each class.
func (p *policies) nodesByClass() map[uint16]map[string]struct{} {
	pods, err := p.pods.List(labels.Everything())
	if err != nil { // a cache never fails
		p.cfg.Log.WithError(err).Error("kubernetes: list pods")
	}
	by := map[uint16]map[string]struct{}{}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, pod := range pods {
		class, _ := p.engine.Class(pod.Namespace, pod.Name, uidOf(pod))
		if class == 0 {
			continue
		}
		if by[class] == nil {
			by[class] = map[string]struct{}{}
		}
		by[class][pod.Spec.NodeName] = struct{}{}
	}
	return by
}

// nodesWith lists the nodes with subjects of a policy.
func nodesWith(record mastercfg.K8sPolicy, by map[uint16]map[string]struct{}) []string {
	all := map[string]struct{}{}
	for _, r := range record.Rules {
		for _, class := range r.Subjects {
			maps.Copy(all, by[class])
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// writeCondition writes one condition and keeps those of other writers.
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
		"metadata": map[string]any{"name": policy.Name, "uid": policy.UID}, // not another one with the same name
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

package k8s

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// A policy that is the only one with its priority again is no longer reported, whatever happened to the other one.
func TestAPriorityThatIsLeftIsNobodysTrouble(t *testing.T) {
	w := newWorld(t)
	w.served().Store(true)
	policies := w.policies.PolicyV1alpha2().ClusterNetworkPolicies()
	policy := func(name string, tier v1alpha2.Tier, priority int32) *v1alpha2.ClusterNetworkPolicy {
		return &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha2.ClusterNetworkPolicySpec{Tier: tier, Priority: priority,
			Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}}, Ingress: []ingress{{Action: "Deny", From: []from{{Namespaces: &metav1.LabelSelector{}}}}}}}
	}
	w.must(policies.Create(t.Context(), policy("a", v1alpha2.AdminTier, 3), metav1.CreateOptions{}))
	w.must(policies.Create(t.Context(), policy("b", v1alpha2.AdminTier, 3), metav1.CreateOptions{}))
	c := w.started()
	w.wantTroubles(c, "clusternetworkpolicy a EqualPriority", "clusternetworkpolicy b EqualPriority")
	for _, trouble := range c.State(t.Context()).Troubles {
		if !strings.Contains(trouble.Message, "give each a priority of its own") {
			t.Errorf("%q has no remedy", trouble.Message)
		}
	}
	for _, other := range []*v1alpha2.ClusterNetworkPolicy{policy("a", v1alpha2.AdminTier, 4), policy("a", v1alpha2.BaselineTier, 3)} {
		w.must(policies.Update(t.Context(), other, metav1.UpdateOptions{}))
		w.wantTroubles(c, []string{}...)
		w.must(policies.Update(t.Context(), policy("a", v1alpha2.AdminTier, 3), metav1.UpdateOptions{}))
		w.wantTroubles(c, "clusternetworkpolicy a EqualPriority", "clusternetworkpolicy b EqualPriority")
	}
	w.must(nil, policies.Delete(t.Context(), "a", metav1.DeleteOptions{}))
	w.wantTroubles(c, []string{}...)
}

package k8s

import (
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// What a pod floods in a bridged network is judged where it is received. So a policy about egress is in force only where these
// switches have it, too, and one about ingress without them.
func TestAPolicyAboutEgressIsInForceWhereFloodsAreJudged(t *testing.T) {
	for _, s := range []struct {
		mode    string
		egress  bool
		hearing bool // nodes that receive floods count
	}{{"bridge", true, true}, {"bridge", false, false}, {"routing", true, false}} {
		t.Run(fmt.Sprintf("%s, egress %v", s.mode, s.egress), func(t *testing.T) {
			w := newWorld(t)
			w.nodes("node1", "node2", "node3", "node4")
			w.put(&contivmodel.Global{Name: contivmodel.GlobalName, FwdMode: s.mode})
			w.served().Store(true)
			w.appliesConditions()
			w.pod("db", "u0", "node1", nil)
			// An endpoint of the same network that is no pod, one of a host that is no node of Kubernetes, and one of another network.
			w.must(w.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
				for id, e := range map[string]mastercfg.CfgEndpointState{
					"a": {NetID: "net.default", HomingHost: "node1", PodNamespace: "shop", EPCommonName: "db", PodUID: "u0"},
					"b": {NetID: "net.default", HomingHost: "node2", EPCommonName: "no pod"},
					"c": {NetID: "net.default", HomingHost: "plain"},
					"d": {NetID: "other.default", HomingHost: "node3"},
				} {
					if err := ledger.Write(tx, mastercfg.EndpointPrefix+id, e); err != nil {
						return err
					}
				}
				return nil
			}))
			policy := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "guard", Generation: 1}, Spec: v1alpha2.ClusterNetworkPolicySpec{Tier: v1alpha2.AdminTier,
				Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}}}}
			isolating := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "alone"}}
			if s.egress {
				policy.Spec.Egress = []v1alpha2.ClusterNetworkPolicyEgressRule{{Action: "Deny", To: []v1alpha2.ClusterNetworkPolicyEgressPeer{{Namespaces: &metav1.LabelSelector{}}}}}
				isolating.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
			} else {
				policy.Spec.Ingress = []ingress{{Action: "Deny", From: []from{{Namespaces: &metav1.LabelSelector{}}}}}
				isolating.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
			}
			w.must(w.policies.PolicyV1alpha2().ClusterNetworkPolicies().Create(t.Context(), policy, metav1.CreateOptions{}))
			w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(), isolating, metav1.CreateOptions{}))
			c := w.controller()
			w.run(c)
			wants := func(status metav1.ConditionStatus, message string) {
				t.Helper()
				w.eventually(func() error {
					now, err := w.policies.PolicyV1alpha2().ClusterNetworkPolicies().Get(t.Context(), "guard", metav1.GetOptions{})
					if err != nil {
						return err
					}
					if got := now.Status.Conditions; len(got) != 1 || got[0].Status != status || got[0].Message != message {
						return fmt.Errorf("conditions %+v", got)
					}
					return nil
				})
			}
			lacking := func(want ...string) {
				t.Helper()
				w.eventually(func() error {
					got, err := c.NetworkPolicy(t.Context(), "shop", "alone")
					if err != nil {
						return err
					}
					nodes := []string{}
					for _, n := range got.Nodes {
						nodes = append(nodes, fmt.Sprintf("%s%v %v", n.Name, n.Tenants, n.Lacks == ""))
					}
					if fmt.Sprint(nodes) != fmt.Sprint(want) {
						return fmt.Errorf("nodes %v, want %v", nodes, want)
					}
					return nil
				})
			}
			if !s.hearing {
				wants(metav1.ConditionFalse, "on 0 of 1 nodes with subjects; not on node1")
				w.enforced.set("node1", w.settled(c))
				wants(metav1.ConditionTrue, "on all nodes with subjects: 1")
				lacking("node1[default] true")
				return
			}
			wants(metav1.ConditionFalse, "on 0 of 2 nodes with subjects, or endpoints that receive what these flood; not on node1, node2")
			w.enforced.set("node1", w.settled(c))
			wants(metav1.ConditionFalse, "on 1 of 2 nodes with subjects, or endpoints that receive what these flood; not on node2")
			lacking("node1[default] true", "node2[default] false")
			w.enforced.set("node2", w.settled(c))
			wants(metav1.ConditionTrue, "on all nodes with subjects, or endpoints that receive what these flood: 2")
			lacking("node1[default] true", "node2[default] true")
		})
	}
}

// settled returns the epoch once nothing waits to be written.
func (w *world) settled(c *Controller) uint32 {
	w.Helper()
	w.eventually(func() error {
		if s := c.State(w.Context()); s.Waiting > 0 {
			return fmt.Errorf("%d wait", s.Waiting)
		}
		return nil
	})
	return w.epoch()
}

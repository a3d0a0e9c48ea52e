package k8s

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/contiv/netplugin/netmaster/classes"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// Short names for parts of policies.
type (
	ingress  = v1alpha2.ClusterNetworkPolicyIngressRule
	egress   = v1alpha2.ClusterNetworkPolicyEgressRule
	from     = v1alpha2.ClusterNetworkPolicyIngressPeer
	to       = v1alpha2.ClusterNetworkPolicyEgressPeer
	protocol = v1alpha2.ClusterNetworkPolicyProtocol
)

func appIn(v string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": v}}
}

func tcp(number int32) protocol {
	return protocol{TCP: &v1alpha2.ClusterNetworkPolicyProtocolTCP{DestinationPort: &v1alpha2.Port{Number: number}}}
}

func TestAClusterNetworkPolicySaysWhatItsFieldsMean(t *testing.T) {
	appIs := func(v string) classes.Selector {
		return classes.Selector{{Key: "app", Op: classes.In, Values: []string{v}}}
	}
	all := v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}}
	everybody := []from{{Namespaces: &metav1.LabelSelector{}}}
	odd := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like", Values: []string{"w"}}}}
	denied := func(out bool) classes.Rule { return classes.Rule{Out: out, Verdict: classes.Deny, AnyPeer: true} }
	node := netip.MustParsePrefix("192.0.2.1/32")
	for what, c := range map[string]struct {
		spec   v1alpha2.ClusterNetworkPolicySpec
		want   classes.Policy
		doubts int
	}{
		"peers, protocols and the order of rules": {v1alpha2.ClusterNetworkPolicySpec{Tier: "Admin", Priority: 7,
			Subject: v1alpha2.ClusterNetworkPolicySubject{Pods: &v1alpha2.NamespacedPod{NamespaceSelector: *appIn("shop"), PodSelector: *appIn("db")}},
			Ingress: []ingress{
				{Action: "Accept", From: []from{{Namespaces: appIn("shop")}, {Pods: &v1alpha2.NamespacedPod{PodSelector: *appIn("web")}}}, Protocols: []protocol{
					tcp(80), {DestinationNamedPort: "web"},
					{UDP: &v1alpha2.ClusterNetworkPolicyProtocolUDP{DestinationPort: &v1alpha2.Port{Range: &v1alpha2.PortRange{Start: 1, End: 65535}}}},
					{SCTP: &v1alpha2.ClusterNetworkPolicyProtocolSCTP{DestinationPort: &v1alpha2.Port{Number: 9}}},
				}},
				{Action: "Deny", From: everybody},
			}},
			classes.Policy{Tier: classes.First, Priority: 7, In: true, Subject: classes.PodSelector{Namespaces: appIs("shop"), Pods: appIs("db")}, Rules: []classes.Rule{
				{Verdict: classes.Accept, Peers: []classes.PodSelector{{Namespaces: appIs("shop")}, {Pods: appIs("web")}}, Ports: []classes.Port{
					{Protocol: 6, First: 80, Last: 80}, {Name: "web"}, {Protocol: 17, First: 1, Last: 65535}, {Protocol: 132, First: 9, Last: 9}}},
				{Verdict: classes.Deny, Peers: []classes.PodSelector{{}}},
			}}, 0},
		"networks and nodes": {v1alpha2.ClusterNetworkPolicySpec{Tier: "Baseline", Subject: all, Egress: []egress{
			{Action: "Pass", To: []to{{Networks: []v1alpha2.CIDR{"::ffff:10.0.0.0/104", "fd00::/8"}}, {Nodes: appIn("node")}}}}},
			classes.Policy{Tier: classes.Last, Out: true, Rules: []classes.Rule{{Out: true, Verdict: classes.Pass,
				Nets: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"), node}}}}, 0},
		"names of domains": {v1alpha2.ClusterNetworkPolicySpec{Tier: "Admin", Subject: all, Egress: []egress{
			{Action: "Accept", To: []to{{DomainNames: []v1alpha2.DomainName{"*.example.org", "kubernetes.io."}}}, Protocols: []protocol{tcp(443)}},
			{Action: "Deny", To: []to{{DomainNames: []v1alpha2.DomainName{"example.org"}}}},
			{Action: "Accept", To: []to{{DomainNames: []v1alpha2.DomainName{"example.org"}}}, Protocols: []protocol{{DestinationNamedPort: "web"}}}}},
			classes.Policy{Tier: classes.First, Out: true, Rules: []classes.Rule{
				{Out: true, Verdict: classes.Accept, Names: []string{"*.example.org", "kubernetes.io."}, Ports: []classes.Port{{Protocol: 6, First: 443, Last: 443}}},
				denied(true), {Out: true, Verdict: classes.Accept}}}, 2},
		"what is not known fails closed": {v1alpha2.ClusterNetworkPolicySpec{Tier: "Admin", Subject: all,
			Ingress: []ingress{
				{Action: "Accept", From: []from{everybody[0], {}}},
				{Action: "Deny", From: []from{{}}},
				{Action: "Pass", From: everybody, Protocols: []protocol{{}}},
				{Action: "Log", From: everybody},
				{Action: "Deny"},
				{Action: "Deny", From: []from{{Namespaces: odd}}},
				{Action: "Deny", From: everybody, Protocols: []protocol{{TCP: &v1alpha2.ClusterNetworkPolicyProtocolTCP{}}}},
				{Action: "Deny", From: everybody, Protocols: []protocol{tcp(0)}},
			},
			Egress: []egress{
				{Action: "Accept", To: []to{{DomainNames: []v1alpha2.DomainName{"www.*.org"}}}},
				{Action: "Deny", To: []to{{Networks: []v1alpha2.CIDR{"10.0.0.0/99"}}}},
				{Action: "Deny", To: []to{{Networks: []v1alpha2.CIDR{"::ffff:10.0.0.0/90"}}}},
				{Action: "Deny", To: []to{{Nodes: odd}}},
				{Action: "Deny", To: []to{{Networks: []v1alpha2.CIDR{"10.0.0.0/8"}}}, Protocols: []protocol{{DestinationNamedPort: "web"}}},
			}},
			classes.Policy{Tier: classes.First, In: true, Out: true, Rules: []classes.Rule{
				{Verdict: classes.Accept}, denied(false), denied(false), denied(false), denied(false), denied(false), denied(false), denied(false),
				{Out: true, Verdict: classes.Accept}, denied(true), denied(true), denied(true), denied(true)}}, 13},
		"a tier that is not known": {v1alpha2.ClusterNetworkPolicySpec{Tier: "Guest", Subject: all, Ingress: []ingress{{Action: "Accept", From: everybody}, {Action: "Pass", From: everybody}}},
			classes.Policy{In: true, Rules: []classes.Rule{{Verdict: classes.Accept}, denied(false)}}, 2},
		"a subject that is not known": {v1alpha2.ClusterNetworkPolicySpec{Tier: "Baseline", Ingress: []ingress{{Action: "Deny", From: everybody}}},
			classes.Policy{}, 1}, // nil
	} {
		got, doubts := clusterNetworkPolicy(&v1alpha2.ClusterNetworkPolicy{Spec: c.spec}, func(s labels.Selector) ([]netip.Prefix, error) {
			if s.String() != "app=node" {
				return nil, errors.New("another selector")
			}
			return []netip.Prefix{node}, nil
		})
		want := &c.want
		if reflect.DeepEqual(c.want, classes.Policy{}) {
			want = nil
		}
		if !reflect.DeepEqual(got, want) || len(doubts) != c.doubts {
			t.Errorf("%s:\n%+v, doubts %q; want\n%+v", what, got, doubts, want)
		}
	}
}

// served makes the API server have the kind ClusterNetworkPolicy while the flag is set.
func (w *world) served() *atomic.Bool {
	var served atomic.Bool
	w.client.Resources = []*metav1.APIResourceList{{GroupVersion: v1alpha2.GroupVersion.String(), APIResources: []metav1.APIResource{{Name: clusterPolicyResource}}}}
	w.client.PrependReactor("get", "resource", func(kubetesting.Action) (bool, runtime.Object, error) {
		if served.Load() {
			return false, nil, nil
		}
		return true, nil, apierrors.NewNotFound(v1alpha2.Resource(clusterPolicyResource), "")
	})
	return &served
}

// wantRules waits until a ClusterNetworkPolicy has these rules: tier, rank, verdict, networks.
func (w *world) wantRules(policy string, want ...string) {
	w.Helper()
	w.eventually(func() error {
		return w.ledger.View(func(r ledger.Reader) error {
			record, err := ledger.Read[mastercfg.K8sPolicy](r, mastercfg.K8sPolicyPrefix+ofClusterPolicy+policy)
			var got []string
			for _, rule := range record.Rules {
				got = append(got, strings.TrimSpace(fmt.Sprintln(rule.Tier, rule.Rank, rule.Verdict, strings.Join(rule.Nets, " "))))
			}
			if !reflect.DeepEqual(got, want) {
				return fmt.Errorf("rules of %s: %q, %v; want %q", policy, got, err, want)
			}
			return nil
		})
	})
}

// The cluster's operators may install and remove the kind; its policies are in force as long as it exists.
func TestClusterNetworkPoliciesAreInForceWhileTheirKindIsThere(t *testing.T) {
	w := newWorld(t)
	served := w.served()
	w.must(w.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "node1"}, {Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}, metav1.CreateOptions{}))
	policy := &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "guard"}, Spec: v1alpha2.ClusterNetworkPolicySpec{
		Tier: v1alpha2.AdminTier, Priority: 3, Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}},
		Ingress: []ingress{{Action: "Deny", From: []from{{Pods: &v1alpha2.NamespacedPod{PodSelector: *appIn("web")}}}}},
		Egress:  []egress{{Action: "Deny", To: []to{{Nodes: &metav1.LabelSelector{}}}}},
	}}
	w.must(w.policies.PolicyV1alpha2().ClusterNetworkPolicies().Create(t.Context(), policy, metav1.CreateOptions{}))
	w.pod("web0", "u0", "node1", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
	w.pod("db1", "u1", "node1", nil)
	stop := w.follow()
	w.wantClasses(map[string]string{"web0": "", "db1": ""})
	served.Store(true)
	w.wantClasses(map[string]string{"web0": "web", "db1": "other"}, ofClusterPolicy+"guard")
	w.wantRules("guard", "0 75 deny", "0 75 deny 192.0.2.1/32")

	before := w.epoch()
	w.must(w.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node2"}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "2001:db8::2"}}}}, metav1.CreateOptions{}))
	w.wantRules("guard", "0 75 deny", "0 75 deny 192.0.2.1/32 2001:db8::2/128")
	if after := w.epoch(); after == before {
		t.Error("a peer comes, and connections are not judged anew")
	}

	// Another leader writes nothing new, and detects deletions.
	stop()
	before = w.epoch()
	next := w.controller()
	stop = w.run(next)
	w.begun(next)
	w.pod("web2", "u2", "node1", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
	w.wantClasses(map[string]string{"web0": "web", "web2": "web", "db1": "other"}, ofClusterPolicy+"guard")
	if after := w.epoch(); after != before {
		t.Errorf("epoch %d, want %d", after, before)
	}
	stop()
	w.must(nil, w.policies.PolicyV1alpha2().ClusterNetworkPolicies().Delete(t.Context(), "guard", metav1.DeleteOptions{}))
	policy.Name = "other"
	w.must(w.policies.PolicyV1alpha2().ClusterNetworkPolicies().Create(t.Context(), policy, metav1.CreateOptions{}))
	w.follow()
	w.wantClasses(map[string]string{"web0": "web", "db1": "other"}, ofClusterPolicy+"other")
	served.Store(false)
	w.wantClasses(map[string]string{"web0": "", "db1": ""})
}

// A fault of a policy is reported by an event on it, once.
func TestEventsTellWhatIsWrongWithAClusterNetworkPolicy(t *testing.T) {
	w := newWorld(t)
	w.served().Store(true)
	create := func(name string, rules ...ingress) {
		w.must(w.policies.PolicyV1alpha2().ClusterNetworkPolicies().Create(t.Context(), &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha2.ClusterNetworkPolicySpec{Tier: v1alpha2.AdminTier, Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}}, Ingress: rules}}, metav1.CreateOptions{}))
	}
	w.pod("web0", "u0", "node1", nil)
	create("alone", ingress{Action: "Deny", From: []from{{}}})
	w.follow()
	w.wantClasses(map[string]string{"web0": "any"}, ofClusterPolicy+"alone")
	many := make([]ingress, 26)
	for i := range many {
		many[i] = ingress{Action: "Accept", From: []from{{Namespaces: &metav1.LabelSelector{}}}}
	}
	create("many", many...)
	w.wantRules("many", "0 25 deny")
	w.eventually(func() error {
		list, err := w.client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		got := map[string]int{}
		for _, e := range list.Items {
			got[e.Regarding.Kind+" "+e.Regarding.Name+" "+e.Reason]++
		}
		want := map[string]int{"ClusterNetworkPolicy alone PolicyUnsupported": 1, "ClusterNetworkPolicy many EqualPriority": 1, "ClusterNetworkPolicy many PolicyTooLarge": 1}
		for key, n := range want {
			if got[key] != n {
				return fmt.Errorf("events %v, want %v", got, want)
			}
		}
		return nil
	})
}

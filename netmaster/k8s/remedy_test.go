package k8s

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// Whatever is not understood of a policy, its event says what to write in its place.
func TestWhatIsNotUnderstoodOfAPolicyHasARemedy(t *testing.T) {
	odd := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like", Values: []string{"w"}}}}
	check := func(what string, doubts []string, remedy string) {
		t.Helper()
		if len(doubts) != 1 || !strings.Contains(doubts[0], remedy) {
			t.Errorf("%s: %q has not the remedy %q", what, doubts, remedy)
		}
	}
	dccp := corev1.Protocol("DCCP")
	for remedy, rule := range map[string]networkingv1.NetworkPolicyIngressRule{
		"use In, NotIn, Exists or DoesNotExist":             {From: []networkingv1.NetworkPolicyPeer{{PodSelector: odd}}},
		"give it podSelector, namespaceSelector or ipBlock": {From: []networkingv1.NetworkPolicyPeer{{}}},
		"write one like 10.0.0.0/8 or fd00::/8":             {From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "nonsense"}}}},
		"write it like 10.0.0.0/8":                          {From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "::ffff:10.0.0.0/90"}}}},
		"use TCP, UDP or SCTP, and numbers of 1 to 65535":   {Ports: []networkingv1.NetworkPolicyPort{{Protocol: &dccp}}},
	} {
		_, doubts := networkPolicy(&networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{rule}}})
		check("NetworkPolicy", doubts, remedy)
	}
	_, doubts := networkPolicy(&networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{PodSelector: *odd}})
	check("subject", doubts, "use In, NotIn, Exists or DoesNotExist")

	all := v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}}
	everybody := []to{{Namespaces: &metav1.LabelSelector{}}}
	for what, c := range map[string]struct {
		tier    v1alpha2.Tier
		subject v1alpha2.ClusterNetworkPolicySubject
		rule    egress
		remedy  string
	}{
		"subject":    {"Admin", v1alpha2.ClusterNetworkPolicySubject{}, egress{Action: "Deny", To: everybody}, "give namespaces or pods"},
		"tier":       {"Guest", all, egress{Action: "Deny", To: everybody}, "use Admin or Baseline"},
		"action":     {"Admin", all, egress{Action: "Log", To: everybody}, "use Accept, Deny or Pass"},
		"no peers":   {"Admin", all, egress{Action: "Deny"}, "give it some"},
		"a peer":     {"Admin", all, egress{Action: "Deny", To: []to{{}}}, "give namespaces or pods"},
		"operator":   {"Admin", all, egress{Action: "Deny", To: []to{{Namespaces: odd}}}, "In and NotIn with values, Exists and DoesNotExist"},
		"nodes":      {"Admin", all, egress{Action: "Deny", To: []to{{Nodes: odd}}}, "In and NotIn with values, Exists and DoesNotExist"},
		"network":    {"Admin", all, egress{Action: "Deny", To: []to{{Networks: []v1alpha2.CIDR{"10.0.0.0/99"}}}}, "write one like 10.0.0.0/8 or fd00::/8"},
		"domains":    {"Admin", all, egress{Action: "Deny", To: []to{{DomainNames: []v1alpha2.DomainName{"example.org"}}}}, "name networks"},
		"domain":     {"Admin", all, egress{Action: "Accept", To: []to{{DomainNames: []v1alpha2.DomainName{"www.*.org"}}}}, "write one like example.org or *.example.org"},
		"port":       {"Admin", all, egress{Action: "Deny", To: everybody, Protocols: []protocol{{}}}, "give tcp, udp or sctp a destinationPort of 1 to 65535, or destinationNamedPort"},
		"named port": {"Admin", all, egress{Action: "Deny", To: []to{{Networks: []v1alpha2.CIDR{"10.0.0.0/8"}}}, Protocols: []protocol{{DestinationNamedPort: "web"}}}, "give its number"},
	} {
		_, doubts := clusterNetworkPolicy(&v1alpha2.ClusterNetworkPolicy{Spec: v1alpha2.ClusterNetworkPolicySpec{Tier: c.tier, Subject: c.subject, Egress: []egress{c.rule}}},
			func(labels.Selector) ([]netip.Prefix, error) { return nil, nil })
		check(what, doubts, c.remedy)
	}
}

package k8s

import (
	"fmt"
	"slices"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/netmaster/classes"
)

// wantTroubles waits until these are the objects with troubles, and the reasons.
func (w *world) wantTroubles(c *Controller, want ...string) {
	w.Helper()
	w.eventually(func() error {
		got := []string{}
		for _, t := range c.State(w.Context()).Troubles {
			got = append(got, t.Object+" "+t.Reason)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("troubles %q, want %q", got, want)
		}
		return nil
	})
}

func TestTroublesAreToldAsLongAsTheyHold(t *testing.T) {
	w := newWorld(t)
	odd, known := corev1.Protocol("DCCP"), corev1.ProtocolTCP
	policy := func(protocol *corev1.Protocol) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: networkingv1.NetworkPolicySpec{
			Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Protocol: protocol}}}}}}
	}
	w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(), policy(&odd), metav1.CreateOptions{}))
	w.service("web", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"127.0.0.1"} }, "http=80")
	c := w.started()
	w.wantTroubles(c, "networkpolicy shop/db PolicyUnsupported", "service shop/web AddressNotServed")
	w.must(w.client.NetworkingV1().NetworkPolicies("shop").Update(t.Context(), policy(&known), metav1.UpdateOptions{}))
	w.wantTroubles(c, "service shop/web AddressNotServed")
	w.service("web", nil, "http=80")
	w.wantTroubles(c, []string{}...)
	w.must(w.client.NetworkingV1().NetworkPolicies("shop").Update(t.Context(), policy(&odd), metav1.UpdateOptions{}))
	w.wantTroubles(c, "networkpolicy shop/db PolicyUnsupported")
	w.must(nil, w.client.NetworkingV1().NetworkPolicies("shop").Delete(t.Context(), "db", metav1.DeleteOptions{}))
	w.wantTroubles(c, []string{}...)
}

// A trouble that an event has reported remains while it lasts, without another event, however often everything is
// checked.
func TestAnAuditForgetsNoTroubleAndTellsNoneAgain(t *testing.T) {
	w := newWorld(t)
	w.namespace("foreign", map[string]string{"io.contiv.tenant": "blue"})
	w.must(w.client.CoreV1().Pods("foreign").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u2"}, Spec: corev1.PodSpec{NodeName: "node1"}}, metav1.CreateOptions{}))
	w.pod("db", "u1", "node1", nil)
	policies := w.client.NetworkingV1().NetworkPolicies("shop")
	create := func(name string, rules []networkingv1.NetworkPolicyIngressRule) {
		w.must(policies.Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec: networkingv1.NetworkPolicySpec{Ingress: rules}}, metav1.CreateOptions{}))
	}
	foreign := []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "any", Operator: metav1.LabelSelectorOpDoesNotExist}}}}}}}
	create("large", make([]networkingv1.NetworkPolicyIngressRule, classes.MaxRules+1))
	create("strange", foreign)
	w.service("web", nil, "dccp=80")
	service, err := w.client.CoreV1().Services("shop").Get(t.Context(), "web", metav1.GetOptions{})
	w.must(service, err)
	service.Spec.Ports[0].Protocol = corev1.ProtocolSCTP
	w.must(w.client.CoreV1().Services("shop").Update(t.Context(), service, metav1.UpdateOptions{}))
	c := w.started()
	w.wantTroubles(c, "networkpolicy shop/large PolicyTooLarge", "networkpolicy shop/strange PeerInOtherTenant", "service shop/web PortNotServed")
	w.must(nil, c.audit(c.reconcilers...))
	w.must(nil, w.client.CoreV1().Services("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	create("stranger", foreign) // arrives after the audit
	w.wantTroubles(c, "networkpolicy shop/large PolicyTooLarge", "networkpolicy shop/strange PeerInOtherTenant", "networkpolicy shop/stranger PeerInOtherTenant")
	for name, reason := range map[string]string{"large": "PolicyTooLarge", "strange": "PeerInOtherTenant", "web": "PortNotServed"} {
		if n := w.told(name, reason); n != 1 {
			t.Errorf("%d events %s of %s, want 1", n, reason, name)
		}
	}
	w.must(nil, policies.Delete(t.Context(), "strange", metav1.DeleteOptions{}))
	w.must(nil, policies.Delete(t.Context(), "large", metav1.DeleteOptions{}))
	w.wantTroubles(c, "networkpolicy shop/stranger PeerInOtherTenant")
}

// The API server rejects events with longer texts.
func TestEventsAreNotLongerThanTheAPIServerTakes(t *testing.T) {
	w := newWorld(t)
	odd := corev1.Protocol("ÄÖÜ")
	var ports []networkingv1.NetworkPolicyPort
	for range 40 {
		ports = append(ports, networkingv1.NetworkPolicyPort{Protocol: &odd})
	}
	w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: ports}}}}, metav1.CreateOptions{}))
	w.follow()
	w.told("db", "PolicyUnsupported")
	list, err := w.client.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
	w.must(list, err)
	for _, e := range list.Items {
		if len(e.Note) > maxNote || !utf8.ValidString(e.Note) || len(e.Note) < maxNote/2 {
			t.Errorf("%d bytes: %q", len(e.Note), e.Note)
		}
	}
}

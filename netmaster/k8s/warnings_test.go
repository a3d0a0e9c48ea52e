package k8s

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// wantTroubles waits until these are the objects with troubles, and why.
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

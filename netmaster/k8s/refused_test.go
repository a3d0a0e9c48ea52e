package k8s

import (
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a switch does not do of a policy is told, and that it does at last.
func TestAPolicyThatASwitchRefusesIsToldUntilItDoesIt(t *testing.T) {
	w := newWorld(t)
	w.pod("web", "u1", "node1", nil)
	policies := w.client.NetworkingV1().NetworkPolicies("shop")
	create := func() {
		w.must(policies.Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}, metav1.CreateOptions{}))
	}
	create()
	c := w.controller()
	w.run(c)
	w.enforced.set("node1", 1, ofNetworkPolicy+"shop/db", ofNetworkPolicy+"shop/gone")
	w.enforced.set("node2", 1, ofNetworkPolicy+"shop/db")
	w.wantTroubles(c, "networkpolicy shop/db PolicyNotEnforced")
	w.told("db", notEnforced)
	for _, trouble := range c.State(t.Context()).Troubles {
		if !strings.Contains(trouble.Message, "on node1 and others: too many rules") {
			t.Error(trouble)
		}
	}
	w.enforced.set("node1", 1)
	w.enforced.set("node2", 1)
	w.wantTroubles(c, []string{}...)
	w.told("db", isEnforced)

	// A policy that goes takes its trouble along.
	w.enforced.set("node1", 1, ofNetworkPolicy+"shop/db")
	w.wantTroubles(c, "networkpolicy shop/db PolicyNotEnforced")
	w.must(nil, policies.Delete(t.Context(), "db", metav1.DeleteOptions{}))
	w.wantTroubles(c, []string{}...)
	create() // another one of its name
	w.wantTroubles(c, "networkpolicy shop/db PolicyNotEnforced")
}

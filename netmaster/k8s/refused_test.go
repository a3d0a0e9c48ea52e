package k8s

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// A policy that a switch does not enforce is reported, and so is the end of that.
func TestAPolicyThatASwitchRefusesIsToldUntilItDoesIt(t *testing.T) {
	w := newWorld(t)
	w.nodes("node1", "node2")
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

	// A deleted policy has no trouble.
	w.enforced.set("node1", 1, ofNetworkPolicy+"shop/db")
	w.wantTroubles(c, "networkpolicy shop/db PolicyNotEnforced")
	w.must(nil, policies.Delete(t.Context(), "db", metav1.DeleteOptions{}))
	w.wantTroubles(c, []string{}...)
	create() // another one with its name
	w.wantTroubles(c, "networkpolicy shop/db PolicyNotEnforced")
}

// The next leader continues what the previous one has begun to report.
func TestThatAPolicyIsDoneAtLastIsToldByTheNextLeader(t *testing.T) {
	w := newWorld(t)
	w.nodes("node1", "node2")
	w.pod("web", "u1", "node1", nil)
	for _, name := range []string{"db", "cache"} {
		w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(),
			&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}, metav1.CreateOptions{}))
	}
	stop := w.follow()
	w.enforced.set("node1", 1, ofNetworkPolicy+"shop/db", ofNetworkPolicy+"shop/cache", ofNetworkPolicy+"shop/gone")
	w.told("db", notEnforced)
	w.wantNoted("networkpolicy/shop/cache", "networkpolicy/shop/db")
	stop()
	w.enforced.set("node1", 1)
	w.must(nil, w.client.NetworkingV1().NetworkPolicies("shop").Delete(t.Context(), "cache", metav1.DeleteOptions{}))
	w.follow()
	w.told("db", isEnforced)
	w.wantNoted()
}

// A store that refuses writes for a while causes no additional events.
func TestThatAPolicyIsDoneAtLastIsToldOnceWhileTheStoreRefuses(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	recorder := events.NewFakeRecorder(100)
	c.recorder = recorder
	w.must(nil, c.informers.Networking().V1().NetworkPolicies().Informer().GetIndexer().Add(
		&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}))
	w.must(nil, c.informers.Core().V1().Nodes().Informer().GetIndexer().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}))
	r := c.policies.newReports()
	refusing, refuse := context.WithCancel(t.Context())
	refuse() // the store is not reached
	for range 2 {
		w.enforced.set("node1", 1, ofNetworkPolicy+"shop/db")
		w.must(r.reportAll(t.Context()))
		for range 2 { // and another time after it was refused again
			w.enforced.set("node1", 1)
			for range 3 {
				if _, err := r.reportAll(refusing); err == nil {
					t.Fatal("the store takes it")
				}
			}
			w.enforced.set("node1", 1, ofNetworkPolicy+"shop/db")
			w.must(r.reportAll(t.Context()))
		}
		w.enforced.set("node1", 1)
		w.must(r.reportAll(t.Context()))
		w.wantNoted()
	}
	var told []string
	for range len(recorder.Events) {
		_, e, _ := strings.Cut(<-recorder.Events, " ")
		reason, _, _ := strings.Cut(e, " ")
		told = append(told, reason)
	}
	if want := slices.Repeat([]string{notEnforced, isEnforced}, 6); !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

// Refusals of a policy that was deleted and recreated at once are not reported for the new one, until a node has
// evaluated the new one's rules.
func TestARefusalIsNotSaidOfAnotherPolicyOfTheName(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	recorder := events.NewFakeRecorder(100)
	c.recorder = recorder
	indexer := c.informers.Networking().V1().NetworkPolicies().Informer().GetIndexer()
	w.must(nil, c.informers.Core().V1().Nodes().Informer().GetIndexer().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}))
	const id = ofNetworkPolicy + "shop/db"
	made := func(uid types.UID, epoch uint32) {
		w.must(nil, indexer.Add(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: uid}}))
		w.must(c.policies.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
			return ledger.Write(tx, mastercfg.K8sPolicyPrefix+id, mastercfg.K8sPolicy{Epoch: epoch})
		}))
	}
	r := c.policies.newReports()
	told := func(want int) {
		t.Helper()
		w.must(r.reportAll(t.Context()))
		if got := len(recorder.Events); got != want {
			t.Fatalf("%d events, want %d", got, want)
		}
	}
	made("one", 3)
	w.enforced.set("node1", 3, id)
	told(1)
	made("two", 5)
	told(1)
	w.enforced.set("node1", 5, id)
	told(2)
	w.enforced.set("node1", 4, id) // a late report: it was already reported for this policy
	told(2)
}

// wantNoted waits until exactly these policies are recorded as refused by nodes.
func (w *world) wantNoted(policies ...string) {
	w.Helper()
	w.eventually(func() error {
		var got []string
		err := w.ledger.View(func(r ledger.Reader) error {
			r.Range(mastercfg.K8sRefusedPrefix, func(key string, _ []byte) bool {
				got = append(got, strings.TrimPrefix(key, mastercfg.K8sRefusedPrefix))
				return true
			})
			return nil
		})
		if err == nil && !slices.Equal(got, policies) {
			err = fmt.Errorf("noted %q, want %q", got, policies)
		}
		return err
	})
}

// The state of a released node is unknown: the deletion of its record does not mean that it enforces a policy.
func TestARefusalEndsWhenItsNodeSaysSo(t *testing.T) {
	w := newWorld(t)
	w.nodes("node1", "node2")
	w.pod("web", "u1", "node1", nil)
	for _, name := range []string{"db", "cache"} {
		w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(),
			&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}, metav1.CreateOptions{}))
	}
	c := w.controller()
	w.run(c)
	w.enforced.set("node1", 1, ofNetworkPolicy+"shop/db")
	w.wantTroubles(c, "networkpolicy shop/db PolicyNotEnforced")
	w.enforced.mu.Lock()
	delete(w.enforced.of, "node1")
	w.enforced.mu.Unlock()
	w.wantTroubles(c, []string{}...)
	for _, more := range [][]string{{ofNetworkPolicy + "shop/cache"}, nil} { // reports about another policy continue meanwhile
		w.enforced.set("node2", 1, more...)
		w.told("cache", map[bool]string{true: isEnforced, false: notEnforced}[more == nil])
	}
	list, err := w.client.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Regarding.Name == "db" && e.Reason == isEnforced {
			t.Errorf("the node that refuses it is gone: %s", e.Note)
		}
	}
	w.enforced.set("node1", 1)
	w.told("db", isEnforced)

	// A node's report no longer counts when Kubernetes does not have the node, even if the record still exists.
	w.enforced.set("node1", 1, ofNetworkPolicy+"shop/cache")
	w.wantNoted("networkpolicy/shop/cache")
	w.must(nil, w.client.CoreV1().Nodes().Delete(t.Context(), "node1", metav1.DeleteOptions{}))
	w.wantNoted()
	w.wantTroubles(c, []string{}...)
}

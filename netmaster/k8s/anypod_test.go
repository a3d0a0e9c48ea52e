package k8s

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// knowing are the registered agents, and whether they support rules for any pod.
type knowing struct {
	mu sync.Mutex
	of map[string]bool
}

func (k *knowing) set(of map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.of = of
}

func (k *knowing) all(context.Context) (map[string]bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.of), nil
}

// Agents of earlier versions must not get rules that they do not support: they would read a rule for any pod as
// one for no peer, or for every peer.
func TestRulesAreAboutAnyPodOnceAllAgentsKnowThem(t *testing.T) {
	w := newWorld(t)
	for _, node := range []string{"node1", "node2"} {
		w.must(w.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, metav1.CreateOptions{}))
	}
	w.pod("db", "u1", "node1", nil)
	w.pod("web", "u2", "node2", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
	w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpDoesNotExist}}},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}}}}}}}, metav1.CreateOptions{}))
	agents := &knowing{}
	begin := func() (*Controller, func()) {
		c := w.controller()
		c.cfg.KnowAnyPod = agents.all
		return c, w.run(c)
	}
	const key = mastercfg.K8sPolicyPrefix + "networkpolicy/shop/db"
	wants := func(when string, anyPod bool) {
		t.Helper()
		w.eventually(func() error {
			return w.ledger.View(func(r ledger.Reader) error {
				record, err := ledger.Read[mastercfg.K8sPolicy](r, key)
				if err == nil && !slices.ContainsFunc(record.Rules, func(r mastercfg.TierRule) bool { return r.AnyPod == anyPod && (len(r.Peers) == 2) != anyPod }) {
					err = fmt.Errorf("%s: %+v", when, record.Rules)
				}
				return err
			})
		})
	}
	agents.set(map[string]bool{"node1": true})
	c, stop := begin()
	wants("the agent of a node is not there", false)
	w.wantClasses(map[string]string{"db": "db", "web": "web"}, "networkpolicy/shop/db") // a class that arrives late makes connections be evaluated again
	epoch := w.epoch()
	agents.set(map[string]bool{"node1": true, "node2": true})
	wants("all agents know it", true)
	if now := w.epoch(); now != epoch {
		t.Errorf("policies say the same, and connections are judged anew: epoch %d, was %d", now, epoch)
	}
	agents.set(nil)
	w.must(nil, c.policies.readAgents(t.Context()))
	wants("agents are away", true)
	stop()

	_, stop = begin()
	w.pod("new", "u3", "node1", nil) // written at last
	w.wantClasses(map[string]string{"db": "db", "new": "db", "web": "web"}, "networkpolicy/shop/db")
	wants("another leader, and agents are away", true)
	agents.set(map[string]bool{"node1": true, "node2": false})
	wants("an agent of an earlier version is there", false)
	stop()
}

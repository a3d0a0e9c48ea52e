package k8s

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
)

// slow makes the next write of policies last until end is called. It must be created before the controller runs.
type slow struct {
	next   atomic.Bool
	begun  chan struct{}
	ending chan struct{}
	end    func()
}

func slowWrites(c *Controller) *slow {
	s := &slow{begun: make(chan struct{}), ending: make(chan struct{})}
	s.end = sync.OnceFunc(func() { close(s.ending) })
	reconcile := c.policies.reconcile
	c.policies.reconcile = func(ctx context.Context, key string) (time.Duration, error) {
		if key == writeAll && s.next.CompareAndSwap(true, false) {
			close(s.begun)
			<-s.ending
		}
		return reconcile(ctx, key)
	}
	return s
}

// record waits until a pod of node1 has a place.
func (w *world) record(uid string) (record mastercfg.K8sPod) {
	w.Helper()
	w.eventually(func() error {
		return w.ledger.View(func(r ledger.Reader) (err error) {
			record, err = ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey("node1", uid))
			if err == nil && record.Tenant == "" {
				err = errors.New("the pod has no place")
			}
			return err
		})
	})
	return record
}

// A policy that selects a new pod may arrive while other policies are written, which can take seconds. The pod is
// placed meanwhile, and isolated until its class is known.
func TestAPodThatComesAfterItsPolicyIsIsolatedWhileOthersAreWritten(t *testing.T) {
	labelled := func(app string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} }
	}
	policy := func(name, app string) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, ResourceVersion: app}, Spec: networkingv1.NetworkPolicySpec{PodSelector: *appIn(app)}}
	}
	guard := func(label string) *v1alpha2.ClusterNetworkPolicy {
		return &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "guard"}, Spec: v1alpha2.ClusterNetworkPolicySpec{Tier: v1alpha2.AdminTier,
			Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{MatchLabels: map[string]string{label: "yes"}}},
			Ingress: []ingress{{Action: "Deny", From: []from{{Namespaces: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/other": "yes"}}}}}}}}
	}
	for name, c := range map[string]struct {
		before, meanwhile func(w *world)
		known             func(c *Controller) bool // the change made meanwhile is in the caches
		policies          []string
	}{
		"a policy comes": {
			meanwhile: func(w *world) {
				w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(), policy("db", "db"), metav1.CreateOptions{}))
			},
			known: func(c *Controller) bool {
				_, err := c.policies.network.NetworkPolicies("shop").Get("db")
				return err == nil
			},
			policies: []string{"networkpolicy/shop/db", "networkpolicy/shop/large"}},
		"a policy selects others": {
			before: func(w *world) {
				w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(), policy("db", "mail"), metav1.CreateOptions{}))
			},
			meanwhile: func(w *world) {
				w.must(w.client.NetworkingV1().NetworkPolicies("shop").Update(t.Context(), policy("db", "db"), metav1.UpdateOptions{}))
			},
			known: func(c *Controller) bool {
				p, err := c.policies.network.NetworkPolicies("shop").Get("db")
				return err == nil && p.Spec.PodSelector.MatchLabels["app"] == "db"
			},
			policies: []string{"networkpolicy/shop/db", "networkpolicy/shop/large"}},
		"a policy of the cluster comes": {
			meanwhile: func(w *world) {
				w.must(w.policies.PolicyV1alpha2().ClusterNetworkPolicies().Create(t.Context(), guard("kubernetes.io/guarded"), metav1.CreateOptions{}))
			},
			before: func(w *world) { w.label("shop", "kubernetes.io/guarded") },
			known: func(c *Controller) bool {
				_, err := c.policies.cluster.get("guard")
				return err == nil
			},
			policies: []string{"clusternetworkpolicy/guard", "networkpolicy/shop/large"}},
		"its namespace gets a label that one of the cluster selects": {
			before: func(w *world) {
				w.must(w.policies.PolicyV1alpha2().ClusterNetworkPolicies().Create(t.Context(), guard("kubernetes.io/guarded"), metav1.CreateOptions{}))
			},
			meanwhile: func(w *world) { w.label("shop", "kubernetes.io/guarded") },
			known: func(c *Controller) bool {
				n, err := c.policies.namespaces.Get("shop")
				return err == nil && n.Labels["kubernetes.io/guarded"] != ""
			},
			policies: []string{"clusternetworkpolicy/guard", "networkpolicy/shop/large"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.served().Store(true)
			if c.before != nil {
				c.before(w)
			}
			leader := w.controller()
			slow := slowWrites(leader)
			defer slow.end() // before the end of the controller, which waits for it
			w.run(leader)
			w.begun(leader)

			slow.next.Store(true)
			w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(), policy("large", "mail"), metav1.CreateOptions{}))
			<-slow.begun
			c.meanwhile(w)
			testkit.Eventually(t, time.Minute, "what has come is known", func() bool { return c.known(leader) })
			w.pod("db", "u1", "node1", labelled("db"))
			if record := w.record("u1"); record.Classed && record.Class == 0 {
				t.Errorf("the pod is placed as one that no policy selects: %+v", record)
			}
			slow.end()
			w.wantClasses(map[string]string{"db": "db"}, c.policies...)
		})
	}
}

// label adds a label to a namespace.
func (w *world) label(namespace, label string) {
	w.Helper()
	n, err := w.client.CoreV1().Namespaces().Get(w.Context(), namespace, metav1.GetOptions{})
	w.must(n, err)
	if n.Labels == nil {
		n.Labels = map[string]string{}
	}
	n.Labels[label], n.ResourceVersion = "yes", n.ResourceVersion+"1" // the fake API server does not increment it
	w.must(w.client.CoreV1().Namespaces().Update(w.Context(), n, metav1.UpdateOptions{}))
}

// Policies that are not supported, or refused, do not delay pods: their class is known when they are placed.
func TestPoliciesThatAreNotUnderstoodKeepNoPodWaiting(t *testing.T) {
	w := newWorld(t)
	w.served().Store(true)
	odd := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Gt", Values: []string{"1"}}}}
	for name, spec := range map[string]networkingv1.NetworkPolicySpec{
		"peer":    {PodSelector: *appIn("db"), Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{}}}}},
		"subject": {PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "mail"}, MatchExpressions: odd.MatchExpressions}},
		"large":   {PodSelector: *appIn("db"), Ingress: make([]networkingv1.NetworkPolicyIngressRule, 5000)},
	} {
		w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(), &networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: spec}, metav1.CreateOptions{}))
	}
	for i, subject := range []v1alpha2.ClusterNetworkPolicySubject{{}, {Namespaces: &odd}} {
		w.must(w.policies.PolicyV1alpha2().ClusterNetworkPolicies().Create(t.Context(), &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("odd", i)},
			Spec: v1alpha2.ClusterNetworkPolicySpec{Tier: v1alpha2.AdminTier, Subject: subject, Ingress: []ingress{{Action: "Deny"}}}}, metav1.CreateOptions{}))
	}
	c := w.controller()
	w.run(c)
	w.begun(c)
	w.pod("db", "u1", "node1", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "db"} })
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "u1"}}
	testkit.Eventually(t, time.Minute, "the class of the pod is known", func() bool {
		number, known := c.policies.classOf(pod)
		return known && number != 0
	})
}

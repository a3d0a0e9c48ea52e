package k8s

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	corelisters "k8s.io/client-go/listers/core/v1"
	kubetesting "k8s.io/client-go/testing"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
)

// The engine would remove what it has not received yet, so an audit puts writing last, after all objects.
func TestAnAuditHasAllToldBeforeItIsWritten(t *testing.T) {
	w := newWorld(t)
	w.pod("web", "u1", "node1", nil)
	c := w.controller()
	policies := c.policies.reconciler
	follows := policies.follows
	policies.follows = nil // changes are not marked
	w.must(nil, policies.subscribe())
	policies.follows = follows
	c.informers.Start(t.Context().Done())
	w.must(nil, c.complete(t.Context()))
	w.must(nil, w.ledger.View(func(r ledger.Reader) error { return policies.audit(r) }))
	var keys []string
	for policies.queue.Len() > 0 {
		key, _ := policies.queue.Get()
		keys = append(keys, key)
	}
	if got := strings.Join(keys, " "); got != "namespace/shop pod/shop/web write" {
		t.Errorf("order %s", got)
	}
	policies.queue.ShutDown()
}

// hangs never answers.
type hangs struct {
	discovery.ServerResourcesInterfaceWithContext
}

func (hangs) ServerResourcesForGroupVersionWithContext(ctx context.Context, _ string) (*metav1.APIResourceList, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func TestAnAPIServerThatHangsHoldsUpNoEndOfATerm(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := &clusterPolicies{server: hangs{}, log: testkit.Quiet()}
	ended := make(chan error, 1)
	go func() { ended <- c.begin(ctx) }()
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
}

// A netmaster without the right to list ClusterNetworkPolicies still serves pods and services; new pods are
// isolated.
func TestAKindThatNobodyMayAskForHoldsUpPoliciesOnly(t *testing.T) {
	w := newWorld(t)
	var may atomic.Bool
	w.client.PrependReactor("get", "resource", func(kubetesting.Action) (bool, runtime.Object, error) {
		if may.Load() {
			return true, nil, apierrors.NewNotFound(v1alpha2.Resource(clusterPolicyResource), "")
		}
		return true, nil, apierrors.NewForbidden(v1alpha2.Resource(clusterPolicyResource), "", errors.New("no such right"))
	})
	w.pod("web", "u1", "node1", nil)
	w.service("web", nil, "=80")
	c := w.controller()
	w.run(c)
	w.want(map[string]string{"node1/u1": "default/default-net/"})
	w.wantServices("default/shop/web")
	w.must(nil, w.ledger.View(func(r ledger.Reader) error {
		record, err := ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey("node1", "u1"))
		if record.Classed {
			t.Errorf("policies are not known, and a pod has class %d", record.Class)
		}
		return err
	}))
	w.eventually(func() error {
		if s := c.State(t.Context()); !strings.Contains(s.Problem, "ClusterNetworkPolicies") {
			return fmt.Errorf("state %+v", s)
		}
		return nil
	})
	may.Store(true)
	w.wantClasses(map[string]string{"web": ""})
	w.eventually(func() error {
		if s := c.State(t.Context()); s.Problem != "" {
			return fmt.Errorf("state %+v", s)
		}
		return nil
	})
}

// A refusal that differs from one check to the next would be written, and reported, each time.
func TestARefusalIsTheSameEachTime(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{ingressAnnotation: "fast", egressAnnotation: "slow"}}}
	for range 100 {
		if _, _, err := bandwidthOf(pod); err == nil || !strings.Contains(err.Error(), ingressAnnotation) {
			t.Fatal(err)
		}
	}
}

// For a moment, an API server that has just started may answer that the kind does not exist. A leader that begins
// then removes no policies after a single such answer; if there are none, it does not ask again.
func TestALeaderBelievesNoSingleAnswerThatThereIsNoKind(t *testing.T) {
	for name, c := range map[string]struct {
		written bool
		answers string // before the kind exists: "-" it does not exist, "!" an error
		asked   int32
		follows bool
	}{
		"the kind is there":              {true, "", 1, true},
		"it is there a moment later":     {true, "-", 2, true},
		"the server begins twice":        {true, "-!-", 4, true},
		"it is gone":                     {true, "---", kindGone, false},
		"no policy of it was ever there": {false, "---", 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.served().Store(true)
			var asked atomic.Int32
			w.client.PrependReactor("get", "resource", func(kubetesting.Action) (bool, runtime.Object, error) {
				switch n := int(asked.Add(1)); {
				case n > len(c.answers):
					return false, nil, nil
				case c.answers[n-1] == '!':
					return true, nil, apierrors.NewServiceUnavailable("it begins")
				}
				return true, nil, apierrors.NewNotFound(v1alpha2.Resource(clusterPolicyResource), "")
			})
			if c.written {
				w.must(w.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
					return ledger.Write(tx, mastercfg.K8sPolicyPrefix+ofClusterPolicy+"guard", mastercfg.K8sPolicy{})
				}))
			}
			cluster := w.controller().policies.cluster
			w.must(nil, cluster.begin(t.Context()))
			defer cluster.close()
			if follows := cluster.stop != nil; asked.Load() != c.asked || follows != c.follows {
				t.Errorf("asked %d times, follows the kind: %v; want %d, %v", asked.Load(), follows, c.asked, c.follows)
			}
		})
	}
}

// Each node affects all policies with nodes as peers: reporting them node by node at the start would take minutes.
func TestALeaderLooksForNodesOncePerPolicy(t *testing.T) {
	w := newWorld(t)
	w.served().Store(true)
	for i := range 3 {
		w.must(w.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node", i)},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Address: fmt.Sprint("192.0.2.", i)}}}}, metav1.CreateOptions{}))
	}
	w.must(w.policies.PolicyV1alpha2().ClusterNetworkPolicies().Create(t.Context(), &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec: v1alpha2.ClusterNetworkPolicySpec{Tier: v1alpha2.AdminTier, Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}},
			Egress: []egress{{Action: "Deny", To: []to{{Nodes: &metav1.LabelSelector{}}}}}}}, metav1.CreateOptions{}))
	c := w.controller()
	w.must(nil, c.policies.subscribe())
	defer c.policies.queue.ShutDown()
	c.informers.Start(t.Context().Done())
	w.must(nil, c.complete(t.Context()))
	w.must(nil, c.policies.cluster.begin(t.Context()))
	defer c.policies.cluster.close()
	looks := &countedNodes{NodeLister: c.policies.nodes}
	c.policies.nodes = looks
	w.must(nil, w.ledger.View(func(r ledger.Reader) error { return c.policies.reconciler.audit(r) }))
	if looks.count != 1 || looks.found != 3 {
		t.Errorf("nodes are looked for %d times, and %d found; want 1, 3", looks.count, looks.found)
	}
}

// countedNodes counts how often nodes are listed, and how many there were.
type countedNodes struct {
	corelisters.NodeLister
	count, found int
}

func (l *countedNodes) List(which labels.Selector) ([]*corev1.Node, error) {
	l.count++
	nodes, err := l.NodeLister.List(which)
	l.found = len(nodes)
	return nodes, err
}

// begun waits until a leader has written its first state.
func (w *world) begun(c *Controller) {
	w.Helper()
	w.eventually(func() error {
		c.policies.mu.Lock()
		defer c.policies.mu.Unlock()
		if c.policies.written == nil {
			return errors.New("nothing is written yet")
		}
		return nil
	})
}

// Pods are marked long before the ClusterNetworkPolicies are known. The next leader must nevertheless leave all
// records as they are.
func TestANextLeaderNumbersNoClassAnew(t *testing.T) {
	w := newWorld(t)
	w.served().Store(true)
	w.must(w.policies.PolicyV1alpha2().ClusterNetworkPolicies().Create(t.Context(), &v1alpha2.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec: v1alpha2.ClusterNetworkPolicySpec{Tier: v1alpha2.AdminTier, Subject: v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}},
			Ingress: []ingress{{Action: "Deny", From: []from{{Pods: &v1alpha2.NamespacedPod{PodSelector: *appIn("web")}}}}}}}, metav1.CreateOptions{}))
	web := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }
	w.pod("web0", "u0", "node1", web)
	w.pod("db1", "u1", "node1", nil)
	stop := w.follow()
	w.wantClasses(map[string]string{"web0": "web", "db1": "other"}, ofClusterPolicy+"guard")
	stop()
	before, state := w.epoch(), w.state()

	c := w.controller()
	w.client.PrependReactor("get", "resource", func(kubetesting.Action) (bool, runtime.Object, error) {
		return false, nil, testkit.Poll(t.Context(), func() error {
			if n := c.policies.queue.Len(); n < 3 { // a namespace and two pods
				return fmt.Errorf("%d things are marked", n)
			}
			return nil
		})
	})
	w.run(c)
	w.begun(c)
	if now, epoch := w.state(), w.epoch(); !maps.Equal(now, state) || epoch != before {
		t.Errorf("epoch %d, state %v; want %d, %v", epoch, now, before, state)
	}
}

// Connections of pods with labels changed while there was no leader are evaluated again, whether the pod keeps its
// class number or gets another; those of unchanged pods are not.
func TestLabelsThatChangeBetweenLeadersHaveConnectionsJudgedAnew(t *testing.T) {
	for name, c := range map[string]struct {
		pod    string
		labels map[string]string
		anew   bool
	}{
		"nothing":                               {"web", map[string]string{"app": "web"}, false},
		"a label that nothing selects":          {"web", map[string]string{"app": "web", "v": "2"}, false},
		"one more of a pod alone in its class":  {"web", map[string]string{"app": "web", "quarantine": "true"}, true},
		"another one of such a pod":             {"web", map[string]string{"quarantine": "true"}, true},
		"another one of a subject of no rule":   {"client", map[string]string{"quarantine": "true"}, true},
		"of a pod that nothing has selected":    {"plain", map[string]string{"quarantine": "true"}, true},
		"none any more":                         {"web", nil, true},
		"of a pod that becomes like another":    {"plain", map[string]string{"app": "web"}, true},
		"of one that is like another no more":   {"twin", map[string]string{"quarantine": "true"}, true},
		"of one that only rules of others name": {"client", map[string]string{"app": "web"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, app := range []string{"web", "client", "twin"} {
				w.pod(app, app, "node1", func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} })
			}
			w.pod("twin2", "twin2", "node1", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "twin"} })
			w.pod("plain", "plain", "node1", nil)
			for name, spec := range map[string]networkingv1.NetworkPolicySpec{
				"web": {PodSelector: *appIn("web"), Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
					{PodSelector: appIn("client")}, {PodSelector: appIn("twin")}}}}},
				"quarantine": {PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"quarantine": "true"}}, PolicyTypes: []networkingv1.PolicyType{"Ingress", "Egress"}},
			} {
				w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(), &networkingv1.NetworkPolicy{
					ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: spec}, metav1.CreateOptions{}))
			}
			stop := w.follow()
			w.wantClasses(map[string]string{"web": "web", "client": "client", "twin": "twin", "twin2": "twin", "plain": ""}, "networkpolicy/shop/quarantine", "networkpolicy/shop/web")
			stop()
			before := w.epoch()
			w.change(c.pod, func(p *corev1.Pod) { p.Labels = c.labels })
			next := w.controller()
			w.run(next)
			w.begun(next)
			if after := w.epoch(); (after != before) != c.anew {
				t.Errorf("epoch %d after %d; judged anew: want %v", after, before, c.anew)
			}
		})
	}
}

// Agents continue while the store is restored from a backup: the next epochs must differ from all that they have
// seen.
func TestEpochsAfterABackupAreNew(t *testing.T) {
	w := newWorld(t)
	w.pod("web", "web", "node1", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
	policies := w.client.NetworkingV1().NetworkPolicies("shop")
	isolate := func(name string) {
		t.Helper()
		w.must(policies.Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec: networkingv1.NetworkPolicySpec{PodSelector: *appIn("web")}}, metav1.CreateOptions{}))
	}
	isolate("first")
	stop := w.follow()
	w.wantClasses(map[string]string{"web": "web"}, "networkpolicy/shop/first")
	stop()
	const backup, seen = 5, 1000
	w.must(w.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.K8sEpochKey, mastercfg.K8sEpoch{Number: backup})
	}))

	isolate("second")
	w.run(w.controller())
	w.eventually(func() error {
		if now := w.epoch(); now == backup {
			return errors.New("the policy is not written yet")
		}
		return nil
	})
	if now := w.epoch(); now <= seen {
		t.Errorf("epoch %d after %d: agents have seen those to %d", now, backup, seen)
	}
}

package k8s

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// A NetworkPolicy is in force on a node with pods that it selects once the node's switch has its present rules,
// also if there are none and all clients are denied.
func TestANetworkPolicyIsInForceWhereSwitchesDoWhatItSays(t *testing.T) {
	w := newWorld(t)
	w.nodes("node1", "node2", "node3", "node4")
	labelled := func(app string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} }
	}
	w.pod("db-0", "u0", "node1", labelled("db"))
	w.pod("db-1", "u1", "node2", labelled("db"))
	w.pod("db-2", "u2", "node2", labelled("db"))
	w.pod("web", "u3", "node3", labelled("web"))
	w.pod("ended", "u4", "node4", func(p *corev1.Pod) { labelled("db")(p); p.Status.Phase = corev1.PodSucceeded })
	w.pod("refused", "u5", "node4", func(p *corev1.Pod) {
		labelled("db")(p)
		p.Annotations = map[string]string{mastercfg.GroupLabel: "nowhere"}
	})
	policies := w.client.NetworkingV1().NetworkPolicies("shop")
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: networkingv1.NetworkPolicySpec{PodSelector: *appIn("db")}}
	w.must(policies.Create(t.Context(), policy, metav1.CreateOptions{}))
	c := w.controller()
	if _, err := c.NetworkPolicy(t.Context(), "shop", "db"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("before anything is known: %v", err)
	}
	var full atomic.Bool // the store refuses writes
	reconcile := c.policies.reconcile
	c.policies.reconcile = func(ctx context.Context, key string) (time.Duration, error) {
		if key == writeAll && full.Load() {
			return 0, errors.New("the store takes nothing")
		}
		return reconcile(ctx, key)
	}
	w.run(c)
	w.wantClasses(map[string]string{"db-0": "db", "db-1": "db", "db-2": "db", "web": ""}, "networkpolicy/shop/db")
	wants := func(what string, lacks map[string]string) {
		t.Helper()
		w.eventually(func() error {
			got, err := c.NetworkPolicy(t.Context(), "shop", "db")
			if err != nil {
				return err
			}
			found, tenants := map[string]string{}, map[string][]string{}
			for _, n := range got.Nodes {
				found[n.Name], tenants[n.Name] = "", n.Tenants
				for _, part := range lacks {
					if part != "" && strings.Contains(n.Lacks, part) {
						found[n.Name] = part
					}
				}
				if n.Lacks != "" && found[n.Name] == "" {
					return fmt.Errorf("%s: %s lacks %q", what, n.Name, n.Lacks)
				}
			}
			of := map[string][]string{}
			for name := range lacks {
				of[name] = []string{"default"}
			}
			if got.Tenant != "default" || !reflect.DeepEqual(found, lacks) || !reflect.DeepEqual(tenants, of) {
				return fmt.Errorf("%s: %+v, want %v", what, got, lacks)
			}
			return nil
		})
	}
	since := func() uint32 { // the epoch of its present rules
		var record mastercfg.K8sPolicy
		w.must(nil, w.ledger.View(func(r ledger.Reader) (err error) {
			record, err = ledger.Read[mastercfg.K8sPolicy](r, mastercfg.K8sPolicyPrefix+"networkpolicy/shop/db")
			return err
		}))
		return record.Epoch
	}
	wants("nobody has said anything", map[string]string{"node1": "has not said", "node2": "has not said"})
	epoch := w.epoch()
	w.enforced.set("node1", epoch)
	w.enforced.set("node2", since()-1)
	wants("one switch is behind", map[string]string{"node1": "", "node2": "does not yet have"})
	w.enforced.set("node2", epoch, "networkpolicy/shop/db")
	wants("one switch refuses rules", map[string]string{"node1": "", "node2": "too many rules"})
	w.enforced.set("node2", epoch, "networkpolicy/shop/other")
	wants("another policy is refused", map[string]string{"node1": "", "node2": ""})
	w.enforced.mu.Lock()
	w.enforced.of["node2"] = mastercfg.K8sEnforced{Number: epoch, More: true}
	w.enforced.mu.Unlock()
	wants("one node refuses more than it names", map[string]string{"node1": "", "node2": "does not name all"})

	// Until the present rules are written, no switch has them.
	full.Store(true)
	policy = policy.DeepCopy()
	policy.Spec.PodSelector = *appIn("web")
	w.must(policies.Update(t.Context(), policy, metav1.UpdateOptions{}))
	w.enforced.set("node3", since())
	wants("it says something else", map[string]string{"node3": "not yet written"})
	full.Store(false)
	wants("it says something else, which is written", map[string]string{"node3": "does not yet have"})
	w.enforced.set("node3", w.epoch())
	wants("which the switch has", map[string]string{"node3": ""})

	w.must(nil, policies.Delete(t.Context(), "db", metav1.DeleteOptions{}))
	w.eventually(func() error {
		if _, err := c.NetworkPolicy(t.Context(), "shop", "db"); !fault.Is(err, fault.NotFound) {
			return fmt.Errorf("of one that is gone: %w", err)
		}
		return nil
	})
}

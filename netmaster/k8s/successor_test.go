package k8s

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// A planned record of a pod may be written when another pod has its name, as of a StatefulSet. The new pod must
// always have the class of its own labels: with the former one's it would be open, or isolated, until the next
// write.
func TestWhatWasPlannedForAPodIsNotWrittenForTheNextOneOfItsName(t *testing.T) {
	for name, c := range map[string]struct{ before, now string }{
		"the one of before was open":     {"web", "db"},
		"the one of before was isolated": {"db", "web"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			controller := w.controller()
			w.run(controller)
			labelled := func(app string) func(*corev1.Pod) {
				return func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} }
			}
			w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
				Spec: networkingv1.NetworkPolicySpec{PodSelector: *appIn("db")}}, metav1.CreateOptions{}))
			w.pod("db", "u0", "node1", labelled("db")) // so that the class has a record already
			w.pod("app-0", "u1", "node1", labelled(c.before))
			texts := map[string]string{"db": "db", "app-0": map[string]string{"db": "db"}[c.before]}
			w.wantClasses(texts, "networkpolicy/shop/db")

			p := controller.policies
			p.mu.Lock()
			p.engine.Revisit("shop", "app-0")
			planned := p.engine.Take()
			p.mu.Unlock()
			if _, is := planned.Pods["shop/app-0"]; !is {
				t.Fatalf("it is not planned: %+v", planned)
			}
			w.deletePod("app-0")
			w.pod("app-0", "u2", "node1", labelled(c.now))
			w.eventually(func() error {
				if record := w.record("u2"); !record.Classed {
					return fmt.Errorf("it has no class yet: %+v", record)
				}
				return nil
			})
			var before, after mastercfg.K8sPod
			key := mastercfg.K8sPodKey("node1", "u2")
			w.must(w.ledger.Update(t.Context(), func(tx *ledger.Tx) (err error) {
				if before, err = ledger.Read[mastercfg.K8sPod](tx, key); err != nil {
					return err
				}
				if err := p.writeChanges(tx, planned); err != nil {
					return err
				}
				after, err = ledger.Read[mastercfg.K8sPod](tx, key)
				return err
			}))
			if after.Class != before.Class || (before.Class != 0) != (c.now == "db") {
				t.Errorf("it is of class %d, and of class %d after what was planned for the one of before", before.Class, after.Class)
			}
		})
	}
}

package k8s

import (
	"encoding/json"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/etcdtest"
	"github.com/contiv/netplugin/test/testkit"
)

// A policy of many pods is removed in several transactions. At no revision does a pod have a class without a
// record, since agents would isolate it.
func TestWhatIsNotSelectedAnyMoreIsNeverIsolated(t *testing.T) {
	store := etcdtest.New(t.TempDir(), etcdtest.WithoutDisk) // few operations in a transaction
	if err := store.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Kill)
	db, err := objdb.Open(objdb.Config{Endpoints: []string{store.URL}, Log: testkit.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	w := worldIn(t, db)
	w.follow()
	texts := map[string]string{}
	for i := range 3 * objdb.FewOps / 2 {
		name := fmt.Sprint("web", i)
		w.pod(name, "u-"+name, "node1", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} })
		texts[name] = "web"
	}
	selecting := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(), selecting, metav1.CreateOptions{}))
	w.wantClasses(texts, "networkpolicy/shop/web")

	client, err := clientv3.New(clientv3.Config{Endpoints: []string{store.URL}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	at := func(revision int64, prefix string) (values map[string][]byte, found int64) {
		got, err := client.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithRev(revision))
		if err != nil {
			t.Fatal(err)
		}
		values = map[string][]byte{}
		for _, kv := range got.Kvs {
			values[string(kv.Key)] = kv.Value
		}
		return values, got.Header.Revision
	}
	classes := func(revision int64) (selected map[string]uint16, found int64) {
		values, found := at(revision, mastercfg.K8sPodPrefix)
		selected = map[string]uint16{}
		for key, value := range values {
			var pod mastercfg.K8sPod
			if err := json.Unmarshal(value, &pod); err != nil {
				t.Fatal(err)
			}
			if pod.Class != 0 {
				selected[key] = pod.Class
			}
		}
		return selected, found
	}
	var revision, last int64
	w.eventually(func() error { // the store, which lags behind the leader's state
		var there map[string]uint16
		if there, revision = classes(0); len(there) < len(texts) {
			return fmt.Errorf("%d pods are selected so far", len(there))
		}
		return nil
	})
	w.must(nil, w.client.NetworkingV1().NetworkPolicies("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	w.eventually(func() error {
		var left map[string]uint16
		if left, last = classes(0); len(left) > 0 {
			return fmt.Errorf("%d pods are selected still", len(left))
		}
		return nil
	})
	steps := 0
	for ; revision <= last; revision++ {
		known, _ := at(revision, mastercfg.K8sClassPrefix)
		selected, _ := classes(revision)
		for pod, class := range selected {
			if _, has := known[mastercfg.K8sClassKey(class)]; !has {
				t.Errorf("at revision %d %s is of class %d, which nobody knows", revision, pod, class)
			}
		}
		if len(selected) > 0 && len(selected) < len(texts) {
			steps++
		}
	}
	if steps == 0 {
		t.Error("it was one transaction: this test shows nothing")
	}
}

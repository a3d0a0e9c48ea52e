package k8s

import (
	"fmt"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// keys returns the keys below all prefixes of a leader's Kubernetes records.
func (w *world) keys() (all []string) {
	w.Helper()
	w.must(nil, w.ledger.View(func(r ledger.Reader) error {
		for _, prefix := range []string{mastercfg.K8sPodPrefix, mastercfg.K8sServicePrefix, mastercfg.K8sBackendPrefix,
			mastercfg.K8sNodePrefix, mastercfg.K8sClassPrefix, mastercfg.K8sPolicyPrefix, mastercfg.K8sRefusedPrefix} {
			r.Range(prefix, func(key string, _ []byte) bool {
				if prefix == mastercfg.K8sClassPrefix && forms[prefix](key[len(prefix):], nil) {
					key = prefix + "some" // a pod with a damaged record gets another number
				}
				all = append(all, key)
				return true
			})
		}
		return nil
	}))
	return all
}

func TestRecordsThatSayNothingOfAnObjectGo(t *testing.T) {
	w := newWorld(t)
	w.pod("web", "u1", "node1", nil)
	w.service("web", nil, "http=80")
	w.slice("web-1", "web", "http", 8080, nil, "10.128.0.4")
	w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}, metav1.CreateOptions{}))
	stop := w.follow()
	w.wantServices("default/shop/web", "default/shop/web/http/10.128.0.4:8080")
	w.want(map[string]string{"node1/u1": "default/default-net/"})
	w.wantClasses(map[string]string{"web": "isolated"}, "networkpolicy/shop/db")
	stop()
	want := w.keys()

	w.must(w.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		for _, key := range []string{
			mastercfg.K8sPodPrefix + "u2", mastercfg.K8sPodPrefix + "node1/u2/u3", mastercfg.K8sPodPrefix + "node1/u4",
			mastercfg.K8sServicePrefix + "default", mastercfg.K8sServicePrefix + "default/shop", mastercfg.K8sServicePrefix + "default/shop/web/http",
			mastercfg.K8sBackendPrefix + "default/shop/web", mastercfg.K8sBackendPrefix + "default/shop/web/http/nowhere",
			mastercfg.K8sBackendPrefix + "default/shop/web/http/10.128.0.4:08080", mastercfg.K8sBackendPrefix + "default/shop/other/http/10.128.0.4:80/80",
			mastercfg.K8sClassPrefix + "first", mastercfg.K8sClassPrefix + "007", mastercfg.K8sClassPrefix + "70000",
			mastercfg.K8sPolicyPrefix + "none", mastercfg.K8sPolicyPrefix + "nokind/shop/db", mastercfg.K8sPolicyPrefix + "networkpolicy/shop/db/more",
			mastercfg.K8sNodePrefix + "node9", mastercfg.K8sNodePrefix + "node9/more",
		} {
			tx.Put(key, []byte("{}"))
		}
		tx.Put(mastercfg.K8sPodPrefix+"node1/u9", []byte("not JSON"))
		tx.Put(mastercfg.K8sPolicyPrefix+"networkpolicy/shop/gone", []byte("not JSON"))
		tx.Put(mastercfg.K8sRefusedPrefix+"networkpolicy/shop/db", []byte("not JSON"))
		tx.Put(mastercfg.K8sClassKey(4711), []byte("not JSON"))
		// Damaged records of existing objects, which are written again.
		for _, key := range []string{mastercfg.K8sPodKey("node1", "u1"), mastercfg.K8sPolicyPrefix + "networkpolicy/shop/db", mastercfg.K8sEpochKey,
			mastercfg.K8sServiceKey("default", "shop", "web")} {
			tx.Put(key, []byte("not JSON"))
		}
		return nil
	}))
	w.follow()
	w.eventually(func() error {
		if got := w.keys(); !slices.Equal(got, want) {
			return fmt.Errorf("keys\n%q\nwant\n%q", got, want)
		}
		return nil
	})
	w.want(map[string]string{"node1/u1": "default/default-net/"})
}

package k8s

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// stored is a state with some records.
type stored struct {
	ledger.Reader
	records map[string]any
}

func (s stored) Get(key string) ([]byte, bool) {
	record, there := s.records[key]
	value, err := json.Marshal(record)
	return value, there && err == nil
}

func (s stored) Range(prefix string, visit func(key string, value []byte) bool) {
	for _, key := range slices.Sorted(maps.Keys(s.records)) {
		if value, _ := s.Get(key); strings.HasPrefix(key, prefix) && !visit(key, value) {
			return
		}
	}
}

// The connections of a shared service to a pod that lives, and is not behind it any more, end only if the clients are
// served by another tenant instead. While nobody serves them, as when all pods are not ready for a moment, they last.
func TestConnectionsOfASharedServiceEndOnlyForOthersThatServe(t *testing.T) {
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{uidIndex: uidOfObject})
	if err := pods.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "u1"}}); err != nil {
		t.Fatal(err)
	}
	record := mastercfg.K8sService{Namespace: "shop", Name: "all", Shared: true, Ports: []mastercfg.K8sServicePort{{Protocol: "TCP", Port: 80}}}
	at := func(address, uid string) backend {
		return backend{K8sBackend: mastercfg.K8sBackend{Address: netip.MustParseAddrPort(address), Node: "node1", Pod: uid}}
	}
	former, other := at("10.128.0.5:80", "u1"), at("10.128.0.4:80", "u0")
	own := mastercfg.K8sServiceKey("blue", "shop", "all")
	its := mastercfg.K8sBackendKey("blue", "shop", "all", "", former.Address)
	state := stored{records: map[string]any{own: record, its: former.K8sBackend}}
	for name, c := range map[string]struct {
		home []backend
		want bool
	}{"nobody serves": {nil, true}, "another tenant serves": {[]backend{other}, false}} {
		b := &balancer{pods: pods, tenants: map[string]map[string]struct{}{"shop/all": {"blue": {}}}}
		all := tenantBackends{of: map[string][]backend{"default": c.home}}
		d := desired{problems: map[string][]string{}}
		if err := b.recordsFor(state, "shop/all", record, all, all.tenantForHosts("default"), &d); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, service := d.records[own]
		_, kept := d.records[its]
		if service != c.want || kept != c.want {
			t.Errorf("%s: the former backend is kept: %t, with a service: %t; want %t; records %v", name, kept, service, c.want, slices.Sorted(maps.Keys(d.records)))
		}
	}
}

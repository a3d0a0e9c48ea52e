package agent

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// The health answer says when this node leaves; other nodes that leave do not matter.
func TestTheNodeKnowsThatItGoes(t *testing.T) {
	n := kubeNode(t)
	for _, c := range []struct {
		node, record string
		want         bool
	}{{"node2", `{"leaving":true}`, false}, {me, `{"leaving":true}`, true}, {me, `{}`, false}} {
		n.put(mastercfg.K8sNodePrefix+c.node, c.record)
		if got := n.cache.kubeHealth().Leaving; got != c.want {
			t.Errorf("%s says %s: leaving %v", c.node, c.record, got)
		}
	}
}

// Load balancers query each of thousands of services every second: backends are counted on changes, not on
// queries.
func TestBackendsAreCountedWhenTheyChangeNotWhenSomebodyAsks(t *testing.T) {
	store := newEtcd(t).start()
	text := func(record any) string {
		value, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		return string(value)
	}
	backend := func(address, node string) {
		at := netip.MustParseAddrPort(address)
		store.put(mastercfg.K8sBackendKey("default", "shop", "web", "http", at), text(mastercfg.K8sBackend{Address: at, Node: node, Ready: true}))
	}
	store.put(blueState...)
	store.put(mastercfg.K8sServiceKey("default", "shop", "web"), text(mastercfg.K8sService{Namespace: "shop", Name: "web",
		Addresses: []netip.Addr{netip.MustParseAddr("10.96.0.7")}, HealthPort: 30999, ExternalLocal: true,
		Ports: []mastercfg.K8sServicePort{{Name: "http", Protocol: "TCP", Port: 80}}}))
	backend("10.1.0.2:8080", me)
	backend("10.1.0.3:8080", "node2")
	a := startAgent(t, store.db, newRecorder())
	a.awaitReady(t)
	counted := func(want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d backends are here", want), func() error {
			if got := a.KubeHealth().Ports[30999]; got != (HealthPort{"shop", "web", want}) {
				return fmt.Errorf("%+v", got)
			}
			return nil
		})
	}
	counted(1)
	one := a.KubeHealth()
	if other := a.KubeHealth(); one.Changed == other.Changed && reflect.ValueOf(one.Ports).Pointer() != reflect.ValueOf(other.Ports).Pointer() {
		t.Error("they were counted again")
	}
	backend("10.1.0.4:8080", me)
	counted(2)
	store.del(mastercfg.K8sServiceKey("default", "shop", "web"))
	eventually(t, "the service has gone", func() error {
		if left := a.KubeHealth().Ports; len(left) > 0 {
			return fmt.Errorf("%+v", left)
		}
		return nil
	})
}

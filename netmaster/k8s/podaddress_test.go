package k8s

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/contivmodel"
)

// A pod without an address is reported as long as it has none, by its own node only.
func TestAPodThatGetsNoAddressIsToldOf(t *testing.T) {
	w := newWorld(t)
	w.pod("web", "u1", "node1", nil)
	c := w.controller()
	w.run(c)
	w.want(map[string]string{"node1/u1": "default/default-net/"})
	c.TellAddress("shop", "web", "u1", "node2", "PoolExhausted", "of another node")
	c.TellAddress("shop", "web", "u2", "node1", "PoolExhausted", "of another pod of its name")
	c.TellAddress("shop", "none", "u1", "node1", "PoolExhausted", "of none")
	w.wantTroubles(c, []string{}...)
	for range 3 {
		c.TellAddress("shop", "web", "u1", "node1", "PoolExhausted", "pod shop/web gets no address")
	}
	w.wantTroubles(c, "pod shop/web PoolExhausted")
	if n := w.told("web", "PoolExhausted"); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	c.TellAddress("shop", "web", "u1", "node1", "", "")
	w.wantTroubles(c, []string{}...)
	c.TellAddress("shop", "web", "u1", "node1", "PoolExhausted", "pod shop/web gets no address")
	w.wantTroubles(c, "pod shop/web PoolExhausted")
	c.TellAddress("shop", "web", "u1", "node1", "TenantFull", "pod shop/web gets no endpoint")
	w.wantTroubles(c, "pod shop/web TenantFull") // only one of them holds
	w.deletePod("web")
	w.wantTroubles(c, []string{}...)
}

// Addresses that a service's owner has requested, and tenants of its pods, are reported, and are no trouble.
func TestWhatAServiceGetsThatSomebodyShouldKnowOfIsTold(t *testing.T) {
	w := newWorld(t)
	w.put(&contivmodel.Tenant{TenantName: "blue"}, &contivmodel.Network{TenantName: "blue", NetworkName: "default-net"})
	w.must(w.client.CoreV1().Namespaces().Update(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop",
		Annotations: map[string]string{allowedKey: "blue"}}}, metav1.UpdateOptions{}))
	w.pod("web-0", "u0", "node1", nil)
	w.pod("web-1", "u1", "node1", func(p *corev1.Pod) { p.Labels = map[string]string{"io.contiv.tenant": "blue"} })
	w.service("plain", nil, "http=80")
	w.slice("plain", "plain", "http", 80, nil, "10.128.0.4 u0 node1")
	w.service("web", func(s *corev1.Service) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.96.0.8", []string{"10.96.0.8"}
		s.Spec.ExternalIPs = []string{"198.51.100.7", "198.51.100.8"}
	}, "http=80")
	w.slice("web", "web", "http", 80, nil, "10.128.0.4 u0 node1", "10.128.0.5 u1 node1")
	c := w.controller()
	w.run(c)
	w.toldThat("web", "ExternalIPUsed", "externalIPs lead 198.51.100.7 and 1 more here")
	w.toldThat("web", "ServiceSpansTenants", "the pods behind it are of tenants blue, default: a client gets those of its own tenant, and nodes get those of default")
	w.wantTroubles(c, []string{}...)
	list, err := w.client.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
	w.must(list, err)
	var got []string
	for _, e := range list.Items {
		got = append(got, fmt.Sprint(e.Regarding.Name, " ", e.Reason))
	}
	if len(got) != 2 {
		t.Errorf("events %q", got)
	}
}

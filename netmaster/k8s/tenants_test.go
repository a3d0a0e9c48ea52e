package k8s

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// A tenant with a list of namespaces accepts pods and services of these only, whatever other namespaces say.
func TestATenantIsForTheNamespacesThatItNames(t *testing.T) {
	w := newWorld(t)
	tenant := func(namespaces string) {
		w.put(&contivmodel.Tenant{TenantName: "blue", Namespaces: namespaces}, &contivmodel.Network{TenantName: "blue", NetworkName: "default-net"})
	}
	tenant("other,third")
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{mastercfg.TenantLabel: "blue"}}}
	w.must(w.client.CoreV1().Namespaces().Update(t.Context(), shop, metav1.UpdateOptions{}))
	w.follow()
	w.pod("web-0", "u0", "node1", nil)
	w.want(map[string]string{"node1/u0": "TenantNotAllowed"})

	tenant("other,shop")
	w.want(map[string]string{"node1/u0": "blue/default-net/"})
	w.service("web", nil, "http=80")
	w.wantServices("blue/shop/web")

	tenant("other")
	w.pod("web-1", "u1", "node1", nil)
	w.want(map[string]string{"node1/u0": "blue/default-net/", "node1/u1": "TenantNotAllowed"}) // a placed pod keeps its place

	w.wantServices() // without a change in Kubernetes
	tenant("")
	w.wantServices("blue/shop/web")
	tenant("other")
	w.wantServices()
	w.service("web", func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }, "http=80")
	tenant("shop")
	w.wantServices("blue/shop/web")
}

// Until the tenant of a namespace exists, it is not known whether it accepts the namespace.
func TestATenantThatComesIsForTheNamespacesThatItNames(t *testing.T) {
	w := newWorld(t)
	w.follow()
	w.namespace("lot", map[string]string{mastercfg.TenantLabel: "red"})
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "lot", Name: "db"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.9", ClusterIPs: []string{"10.96.0.9"},
		Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}}}}
	w.must(w.client.CoreV1().Services("lot").Create(t.Context(), s, metav1.CreateOptions{}))
	w.wantServices("red/lot/db")
	w.put(&contivmodel.Tenant{TenantName: "red", Namespaces: "shop"})
	w.wantServices()
}

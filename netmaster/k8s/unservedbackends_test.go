package k8s

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// For every endpoint of a slice that is not served, the event of its service has the reason and the remedy.
func TestBackendsThatNoPortOfAServiceLeadsToAreTold(t *testing.T) {
	type object = discoveryv1.EndpointSlice
	service := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.7", Ports: []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53}}}}
	record, _ := serviceRecord(service)
	number, none, udp, http := int32(8080), int32(0), corev1.ProtocolUDP, "http"
	port := func(name string, number *int32, protocol *corev1.Protocol) discoveryv1.EndpointPort {
		return discoveryv1.EndpointPort{Name: &name, Port: number, Protocol: protocol}
	}
	slice := func(name string, change func(*object), ports ...discoveryv1.EndpointPort) any {
		s := &object{ObjectMeta: metav1.ObjectMeta{Name: name}, AddressType: discoveryv1.AddressTypeIPv4, Ports: ports,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}, {Addresses: []string{"192.0.2.2"}}}}
		if change != nil {
			change(s)
		}
		return s
	}
	ok := slice("ok", nil, port("http", &number, nil), port("dns", &number, &udp))
	is := func(addressType discoveryv1.AddressType) func(*object) {
		return func(s *object) { s.AddressType = addressType }
	}
	const otherPort = `which the service has not; let it have name and protocol of one of the service's, such as "http" of TCP`
	for name, c := range map[string]struct {
		objects []any
		want    string
	}{
		"all are served": {[]any{ok}, ""},
		"a name": {[]any{slice("web", nil, port("htp", &number, nil))},
			`2 backends are not served, the first because EndpointSlice web has port "htp" of TCP, ` + otherPort},
		"a protocol": {[]any{slice("web", nil, port("http", &number, &udp))},
			`2 backends are not served, the first because EndpointSlice web has port "http" of UDP, ` + otherPort},
		"a port besides": {[]any{slice("web", nil, port("", &number, nil), port("http", &number, nil))}, ""},
		"no number": {[]any{slice("web", nil, port("http", nil, nil))},
			`2 backends are not served, the first because EndpointSlice web has no number for port "http" of TCP; give it one of 1 to 65535`},
		"0": {[]any{slice("web", nil, discoveryv1.EndpointPort{Name: &http, Port: &none})},
			`2 backends are not served, the first because EndpointSlice web has no number for port "http" of TCP; give it one of 1 to 65535`},
		"no ports": {[]any{slice("web", nil)},
			"2 backends are not served, the first because EndpointSlice web has no ports; give it those of the service, or, if a controller has made it, let the pods have the port that targetPort names"},
		"names": {[]any{slice("web", is(discoveryv1.AddressTypeFQDN), port("http", &number, nil))},
			"2 backends are not served, the first because EndpointSlice web is of addressType FQDN, and nobody looks names up; let it be of IPv4 or IPv6, with addresses"},
		"another version of IP": {[]any{slice("web", is(discoveryv1.AddressTypeIPv6), port("http", &number, nil))},
			"2 backends are not served, the first because EndpointSlice web is of addressType IPv6, of which the service has no cluster address; make the service dual-stack, or use the other type"},
		"of others":  {[]any{slice("web", func(s *object) { s.Labels = map[string]string{headlessLabel: ""} })}, ""},
		"of nobody":  {[]any{slice("web", func(s *object) { s.Endpoints = nil })}, ""},
		"of several": {[]any{slice("b", nil, port("x", &number, nil), port("y", &number, nil)), ok, slice("a", nil, port("http", nil, nil))}, `4 backends are not served, the first because EndpointSlice a has no number for port "http" of TCP; give it one of 1 to 65535`},
	} {
		for range 2 { // in any order
			slices.Reverse(c.objects)
			count, why := unmatched(service, record, c.objects)
			if got := fmt.Sprintf("%d backends are not served, the first because %s", count, why); count > 0 && got != c.want || (count == 0) != (c.want == "") {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
	}
}

// Ports of a service and of its slices do not change at the same time: a mismatch of a moment is not reported, and
// neither are slices without a service.
func TestOnlySlicesThatStayUnmatchedAreTold(t *testing.T) {
	w := newWorld(t)
	w.slice("other-1", "other", "", 80, nil, "192.0.2.1") // the service does not exist
	w.service("web", nil, "http=80")
	w.slice("web-1", "web", "http", 80, nil, "192.0.2.1")
	w.service("odd", nil, "http=81")
	w.slice("odd-1", "odd", "htp", 80, nil, "192.0.2.1")
	c := w.controller()
	w.run(c)
	w.wantServices("default/shop/web", "default/shop/web/http/192.0.2.1:80", "default/shop/odd")
	w.service("web", nil, "www=80")
	w.slice("web-1", "web", "www", 80, nil, "192.0.2.1")
	w.toldThat("odd", "BackendNotServed", `1 backends are not served, the first because EndpointSlice odd-1 has port "htp" of TCP`)
	w.wantTroubles(c, "service shop/odd BackendNotServed")
	w.slice("odd-1", "odd", "http", 80, nil, "192.0.2.1", "10.128.0.9 u9 node1") // u9 is unknown
	w.toldThat("odd", "BackendNotServed", "1 backends are not served, the first because 10.128.0.9 is said to be of a pod (targetRef) that is not there")
	w.slice("odd-1", "odd", "http", 80, nil, "192.0.2.1")
	w.wantTroubles(c, []string{}...)
	list, err := w.client.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
	w.must(list, err)
	for _, e := range list.Items {
		if e.Regarding.Name != "odd" {
			t.Errorf("told of %s: %s", e.Regarding.Name, e.Note)
		}
	}
}

// As with kube-proxy, a packet is translated once: a backend at the cluster address of a service does not reach
// the other service. A range of services may contain addresses of others, so such a backend remains.
func TestBackendsAtClusterAddressesAreTold(t *testing.T) {
	w := newWorld(t)
	at := func(address string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = address, []string{address} }
	}
	w.service("db", at("10.96.0.8"), "http=80")
	w.service("elsewhere", func(s *corev1.Service) {
		at("10.96.0.9")(s)
		s.Labels = map[string]string{proxyLabel: "other"}
	}, "http=80")
	w.service("web", nil, "http=80")
	w.slice("web-1", "web", "http", 80, nil, "10.96.0.8", "10.96.0.9", "192.0.2.1")
	c := w.controller()
	w.run(c)
	w.toldThat("web", "BackendNotServed", "1 backends are not served, the first because 10.96.0.8 is the cluster address of service shop/db, "+
		"and no packet is led from one service to another; name the addresses of the pods behind that service")
	w.wantTroubles(c, "service shop/web BackendNotServed")
	w.wantServices("default/shop/db", "default/shop/web", "default/shop/web/http/10.96.0.8:80", "default/shop/web/http/10.96.0.9:80", "default/shop/web/http/192.0.2.1:80")
	w.slice("web-1", "web", "http", 80, nil, "192.0.2.1")
	w.wantTroubles(c, []string{}...)
}

// The address of a backend may be assigned to a service later, without an event for the backend's service.
func TestBackendsInRangesOfServicesAreLookedAtAgain(t *testing.T) {
	ranges := informers.NewSharedInformerFactory(fake.NewClientset(), 0).Networking().V1().ServiceCIDRs().Informer()
	if err := ranges.GetStore().Add(serviceCIDR("10.96.0.0/16", "fd00:96::/108")); err != nil {
		t.Fatal(err)
	}
	b := &balancer{ranges: ranges}
	for text, want := range map[string]bool{"10.96.7.7": true, "fd00:96::7": true, "192.0.2.1": false, "fd00:97::1": false} {
		one := backend{K8sBackend: mastercfg.K8sBackend{Address: netip.AddrPortFrom(netip.MustParseAddr(text), 80)}}
		if got := b.mayBecomeVirtual([]backend{one}); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
		if one.Pod = "u1"; b.mayBecomeVirtual([]backend{one}) {
			t.Errorf("%s is looked at again, though a pod has it", text)
		}
	}
}

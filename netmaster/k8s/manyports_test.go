package k8s

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// Every port has flows on every node at every address of its service. If there are very many, the first ones are
// served, and that is reported.
func TestAServiceHasAsManyPortsAsNodesServe(t *testing.T) {
	w := newWorld(t)
	w.follow()
	var ports []string
	for i := range 4000 {
		ports = append(ports, fmt.Sprintf("p%d=%d", i, 1+i))
	}
	at := func(addresses ...string) {
		w.service("many", func(s *corev1.Service) { s.Spec.ExternalIPs = addresses }, ports...)
	}
	wantPorts := func(want int) {
		t.Helper()
		w.eventually(func() error {
			return w.ledger.View(func(r ledger.Reader) error {
				record, err := ledger.Read[mastercfg.K8sService](r, mastercfg.K8sServiceKey("default", "shop", "many"))
				if n := len(record.Ports); err == nil && (n != want || record.Ports[n-1].Name != fmt.Sprint("p", n-1)) {
					err = fmt.Errorf("%d ports, want the first %d", n, want)
				}
				return err
			})
		})
	}
	at("203.0.113.1")
	wantPorts(4000)
	at("203.0.113.1", "203.0.113.2", "203.0.113.3")
	wantPorts(2500)
	w.toldThat("many", "ServiceTooLarge", "1500 of 4000 ports are not served: 10000 are, each counted at every address")
	w.service("ranges", func(s *corev1.Service) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.96.0.8", nil
		for i := range 1001 {
			s.Spec.LoadBalancerSourceRanges = append(s.Spec.LoadBalancerSourceRanges, fmt.Sprintf("198.18.%d.%d/32", i/250, i%250))
		}
	}, "=80")
	w.toldThat("ranges", "ServiceTooLarge", "1 of 1001 loadBalancerSourceRanges are not served: the first 1000 are")
	w.must(nil, w.client.CoreV1().Services("shop").Delete(t.Context(), "ranges", metav1.DeleteOptions{}))
	w.slice("many-1", "many", "p2499", 8080, nil, "10.128.0.4")
	w.slice("many-2", "many", "p2500", 8080, nil, "10.128.0.4")
	w.wantServices("default/shop/many", "default/shop/many/p2499/10.128.0.4:8080")
	at()
	wantPorts(4000)
	w.wantServices("default/shop/many", "default/shop/many/p2499/10.128.0.4:8080", "default/shop/many/p2500/10.128.0.4:8080")
}

func TestAPortIsCountedAtEveryAddress(t *testing.T) {
	long := make([]string, maxLooked)
	for i := range long {
		long[i] = fmt.Sprint("203.0.113.", i)
	}
	balanced := func(s *corev1.Service, addresses, ranges int) {
		for i := range addresses {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: fmt.Sprint("203.0.113.", i)})
		}
		for i := range ranges {
			s.Spec.LoadBalancerSourceRanges = append(s.Spec.LoadBalancerSourceRanges, fmt.Sprintf("198.18.%d.%d/32", i/250, i%250))
		}
	}
	for _, c := range []struct {
		what   string
		change func(*corev1.Service)
		want   int
	}{
		{"source ranges, at each address of a load balancer", func(s *corev1.Service) { balanced(s, 2, 20) }, 10000 / 41},
		{"very many source ranges, of which some are looked at", func(s *corev1.Service) { balanced(s, 1, 2000) }, 10000 / 1001},
		{"the first port is served in any case", func(s *corev1.Service) { balanced(s, 32, 2000) }, 1},
		{"source ranges without a load balancer", func(s *corev1.Service) { balanced(s, 0, 20) }, 10000},
		{"one address", func(*corev1.Service) {}, 10000},
		{"both versions of IP", func(s *corev1.Service) { s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, "fd00:96::7") }, 5000},
		{"external addresses, of which no more are served", func(s *corev1.Service) { s.Spec.ExternalIPs = long }, 10000 / 33},
		{"addresses of load balancers, which are the same twice", func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}, {IP: "203.0.113.1"}}
		}, 5000},
		{"node ports of both versions of IP, the first ports have none", func(s *corev1.Service) {
			s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, "fd00:96::7")
			for i := range s.Spec.Ports[1000:] {
				s.Spec.Ports[1000+i].NodePort = int32(30000 + i)
			}
		}, 1000 + 8000/4},
	} {
		s := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7"}, Ports: make([]corev1.ServicePort, 11000)}}
		c.change(s)
		if record, _ := serviceRecord(s); len(record.Ports) != c.want {
			t.Errorf("%s: %d ports, want %d", c.what, len(record.Ports), c.want)
		}
	}
}

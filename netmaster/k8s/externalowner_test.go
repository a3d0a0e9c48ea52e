package k8s

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Of services with an equal port at an address one has it. When that one gives the address up, in whatever way, the
// next one has it at once; as when a service comes that has precedence.
func TestAnAddressThatAServiceGivesUpIsTheNextOnesAtOnce(t *testing.T) {
	w := newWorld(t)
	at := func(addresses ...string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			for _, a := range addresses {
				s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a})
			}
		}
	}
	external := func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"203.0.113.7"} }
	w.service("blue", at("203.0.113.7"), "=80")
	w.service("green", at("203.0.113.7"), "=80")
	w.service("other", at("203.0.113.7"), "=443")
	w.service("spec", external, "=80")
	w.follow()
	begun := time.Now()
	has := func(blue, green, spec string) {
		t.Helper()
		w.wantExternal("green", green)
		w.wantExternal("spec", spec)
		if blue != "" {
			w.wantExternal("blue", blue)
		}
		w.wantExternal("other", "[] [203.0.113.7]")
	}
	const nothing, has7 = "[] []", "[] [203.0.113.7]"
	has(has7, nothing, nothing)
	w.service("blue", nil, "=80") // its load balancer takes the address away
	has(nothing, has7, nothing)
	w.service("blue", at("203.0.113.7"), "=80")
	has(has7, nothing, nothing)
	w.service("blue", at("203.0.113.7"), "=81") // another port
	has(has7, has7, nothing)
	w.service("blue", at("203.0.113.7"), "=80")
	has(has7, nothing, nothing)
	w.must(nil, w.client.CoreV1().Services("shop").Delete(t.Context(), "blue", metav1.DeleteOptions{}))
	has("", has7, nothing)
	w.service("green", func(s *corev1.Service) {
		at("203.0.113.7")(s)
		s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "other"}
	}, "=80")
	w.wantExternal("spec", "[203.0.113.7] []")
	if took := time.Since(begun); took > externalAgain/2 {
		t.Errorf("addresses were with their next services after %v", took)
	}
}

// A ClusterIP has precedence at any port. Its service may be from before the present ranges of ClusterIPs.
func TestAnAddressThatWasAClusterIPIsTheNextOnesAtOnce(t *testing.T) {
	w := newWorld(t)
	w.service("blue", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"203.0.113.9"} }, "=80")
	w.service("other", nil, "=443")
	w.follow()
	w.wantExternal("blue", "[203.0.113.9] []")
	begun := time.Now()
	w.service("other", func(s *corev1.Service) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "203.0.113.9", []string{"203.0.113.9"}
	}, "=443")
	w.wantExternal("blue", "[] []")
	w.must(nil, w.client.CoreV1().Services("shop").Delete(t.Context(), "other", metav1.DeleteOptions{}))
	w.wantExternal("blue", "[203.0.113.9] []")
	if took := time.Since(begun); took > externalAgain/2 {
		t.Errorf("the address was with its next service after %v", took)
	}
}

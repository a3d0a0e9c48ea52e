package k8s

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Annotations of Kubernetes that limit what a pod receives and sends, in bit/s. The runtime tells
// network plugins once; here they count as long as the pod lives.
const (
	ingressAnnotation = "kubernetes.io/ingress-bandwidth"
	egressAnnotation  = "kubernetes.io/egress-bandwidth"
)

// What kubelet takes for a bandwidth.
var (
	leastBandwidth = resource.MustParse("1k")
	mostBandwidth  = resource.MustParse("1P")
)

// bandwidthOf is what a pod may receive and send, in bit/s; 0: nothing is said.
func bandwidthOf(pod *corev1.Pod) (ingress, egress int64, err error) {
	for _, one := range []struct {
		annotation string
		rate       *int64
	}{{ingressAnnotation, &ingress}, {egressAnnotation, &egress}} { // in this order, so that a refusal is always the same
		text := pod.Annotations[one.annotation]
		if text == "" {
			continue
		}
		quantity, err := resource.ParseQuantity(text)
		if err != nil || quantity.Cmp(leastBandwidth) < 0 || quantity.Cmp(mostBandwidth) > 0 {
			return 0, 0, refuse("BandwidthInvalid", "pod %s/%s: %s is %.64q: want bits per second such as 10M, from %s to %s",
				pod.Namespace, pod.Name, one.annotation, text, &leastBandwidth, &mostBandwidth)
		}
		*one.rate = quantity.Value()
	}
	return ingress, egress, nil
}

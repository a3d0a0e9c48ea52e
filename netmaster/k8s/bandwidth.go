package k8s

import (
	"regexp"

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

// quantity is the form of the quantities of Kubernetes, with as many digits as are of any use. The API server takes any text as
// an annotation, and resource.Quantity makes of an exponent with ten digits a number with as many digits as that says: gigabytes.
var quantity = regexp.MustCompile(`^\+?[0-9]{1,18}(\.[0-9]{0,9})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$`)

func parseQuantity(text string) (resource.Quantity, error) {
	if !quantity.MatchString(text) {
		return resource.Quantity{}, resource.ErrFormatWrong
	}
	return resource.ParseQuantity(text)
}

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
		wanted, err := parseQuantity(text)
		if err != nil || wanted.Cmp(leastBandwidth) < 0 || wanted.Cmp(mostBandwidth) > 0 {
			return 0, 0, refuse("BandwidthInvalid", "pod %s/%s: %s is %.64q: want bits per second such as 10M, from %s to %s",
				pod.Namespace, pod.Name, one.annotation, text, &leastBandwidth, &mostBandwidth)
		}
		*one.rate = wanted.Value()
	}
	return ingress, egress, nil
}

package k8s

import (
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Annotations of Kubernetes that limit what a pod receives and sends, in bit/s. The runtime passes them to
// network plugins once; here changes apply while the pod runs.
const (
	ingressAnnotation = "kubernetes.io/ingress-bandwidth"
	egressAnnotation  = "kubernetes.io/egress-bandwidth"
)

// The range that kubelet accepts.
var (
	leastBandwidth = resource.MustParse("1k")
	mostBandwidth  = resource.MustParse("1P")
)

// quantity is the form of a Kubernetes quantity, with a useful number of digits. The API server accepts any text as an
// annotation, and resource.Quantity expands an exponent of ten digits to a number with as many digits: gigabytes.
var quantity = regexp.MustCompile(`^\+?[0-9]{1,18}(\.[0-9]{0,9})?([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$`)

func parseQuantity(text string) (resource.Quantity, error) {
	if !quantity.MatchString(text) {
		return resource.Quantity{}, resource.ErrFormatWrong
	}
	return resource.ParseQuantity(text)
}

// bandwidthOf returns what a pod may receive and send, in bit/s; 0: no limit.
func bandwidthOf(pod *corev1.Pod) (ingress, egress int64, err error) {
	for _, one := range []struct {
		annotation string
		rate       *int64
	}{{ingressAnnotation, &ingress}, {egressAnnotation, &egress}} { // in this order, so that the same error is reported each time
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

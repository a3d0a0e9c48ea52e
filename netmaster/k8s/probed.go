package k8s

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// isProbed reports whether kubelet sends requests to the address of a pod: probes, or lifecycle hooks of its
// containers, of type http, tcp or grpc. Those with a host field go to that host.
func isProbed(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), isContainerProbed)
}

func isContainerProbed(c corev1.Container) bool {
	for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if p != nil && (isHTTPToPod(p.HTTPGet) || p.TCPSocket != nil && p.TCPSocket.Host == "" || p.GRPC != nil) {
			return true
		}
	}
	if c.Lifecycle == nil {
		return false
	}
	for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
		if h != nil && isHTTPToPod(h.HTTPGet) {
			return true
		}
	}
	return false
}

func isHTTPToPod(get *corev1.HTTPGetAction) bool { return get != nil && get.Host == "" }

package k8s

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
)

// strip takes away what nobody here reads: pods are most of a cluster's memory.
func strip(object any) (any, error) {
	if o, err := meta.Accessor(object); err == nil { // else the name of one that is gone
		o.SetManagedFields(nil)
	}
	if pod, ok := object.(*corev1.Pod); ok {
		pod.Spec = corev1.PodSpec{
			NodeName: pod.Spec.NodeName, HostNetwork: pod.Spec.HostNetwork,
			InitContainers: ports(pod.Spec.InitContainers), Containers: ports(pod.Spec.Containers),
		}
		pod.Status = corev1.PodStatus{Phase: pod.Status.Phase, PodIPs: pod.Status.PodIPs}
	}
	return object, nil
}

// ports leaves of containers which ports they have; those without are left out.
func ports(all []corev1.Container) (with []corev1.Container) {
	for _, c := range all {
		if len(c.Ports) > 0 {
			with = append(with, corev1.Container{Name: c.Name, Ports: c.Ports, RestartPolicy: c.RestartPolicy})
		}
	}
	return with
}

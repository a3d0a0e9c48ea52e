package k8s

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// strip takes away what nobody here reads: pods are most of a cluster's memory. What it
// is given may be somebody else's, too, and stays as it is.
func strip(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Pod:
		pod := *o
		pod.ManagedFields = nil
		pod.Spec = corev1.PodSpec{
			NodeName: o.Spec.NodeName, HostNetwork: o.Spec.HostNetwork, TerminationGracePeriodSeconds: o.Spec.TerminationGracePeriodSeconds,
			InitContainers: ports(o.Spec.InitContainers), Containers: ports(o.Spec.Containers),
		}
		pod.Status = corev1.PodStatus{Phase: o.Status.Phase, PodIPs: o.Status.PodIPs}
		return &pod, nil
	case runtime.Object:
		copied := o.DeepCopyObject()
		if named, err := meta.Accessor(copied); err == nil {
			named.SetManagedFields(nil)
		}
		return copied, nil
	}
	return object, nil // the name of one that is gone
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

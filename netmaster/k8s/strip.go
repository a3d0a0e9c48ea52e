package k8s

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
)

// strip removes the fields that netmaster does not read: pods are most of a cluster's memory. It does not
// change the given object, which others may use.
func strip(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Pod:
		pod := *o
		pod.ManagedFields = nil
		pod.Spec = corev1.PodSpec{
			NodeName: o.Spec.NodeName, HostNetwork: o.Spec.HostNetwork, TerminationGracePeriodSeconds: o.Spec.TerminationGracePeriodSeconds,
			InitContainers: stripContainers(o.Spec.InitContainers), Containers: stripContainers(o.Spec.Containers),
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
	return object, nil // a deletion with the name only
}

// stripContainers keeps the ports of containers, and whether kubelet
// probes them over the network; containers without either are left out.
func stripContainers(all []corev1.Container) (with []corev1.Container) {
	for _, c := range all {
		left := corev1.Container{Name: c.Name, Ports: c.Ports, RestartPolicy: c.RestartPolicy}
		if isContainerProbed(c) {
			left.ReadinessProbe = probedSomehow
		}
		if len(left.Ports) > 0 || left.ReadinessProbe != nil {
			with = append(with, left)
		}
	}
	return with
}

// probedSomehow replaces any probe or hook that kubelet sends to the address of a pod.
var probedSomehow = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{}}}

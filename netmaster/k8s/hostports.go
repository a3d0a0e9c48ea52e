package k8s

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// hostPorts are the ports of its node that lead into a pod: those of its containers and of its
// sidecars, which are the init containers that go on. Kubelet tells runtimes only of the former.
func hostPorts(pod *corev1.Pod) (all []mastercfg.HostPort) {
	running := slices.Clone(pod.Spec.Containers)
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			running = append(running, c)
		}
	}
	for _, c := range running {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			port := mastercfg.HostPort{Protocol: "tcp", Port: uint16(p.HostPort), To: uint16(p.ContainerPort)}
			if p.Protocol != "" {
				port.Protocol = strings.ToLower(string(p.Protocol))
			}
			if at, err := netip.ParseAddr(p.HostIP); err == nil && !at.IsUnspecified() { // else all addresses
				port.Address = at.Unmap()
			}
			if !slices.Contains(all, port) {
				all = append(all, port)
			}
		}
	}
	return all
}

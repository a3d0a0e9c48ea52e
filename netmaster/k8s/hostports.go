package k8s

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// hostPorts returns the ports of the node that forward to a pod: those of its containers and of its sidecars, the init
// containers that keep running. Kubelet reports only the former to runtimes. A port with an invalid hostIP, which the
// API server does not validate, is refused: at all addresses it would be more open than requested.
func hostPorts(pod *corev1.Pod) (all []mastercfg.HostPort, refused error) {
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
			if p.HostIP != "" {
				at := addresses([]string{p.HostIP})
				if len(at) == 0 {
					refused = refuse("HostPortInvalid", "pod %s/%s: hostIP of hostPort %d is %.64q: want an IP address of the node", pod.Namespace, pod.Name, p.HostPort, p.HostIP)
					continue
				}
				if !at[0].IsUnspecified() { // otherwise all addresses
					port.Address = at[0]
				}
			}
			if !slices.Contains(all, port) {
				all = append(all, port)
			}
		}
	}
	return all, refused
}

package k8s

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// hostPorts are the ports of its node that lead into a pod: those of its containers and of its
// sidecars, which are the init containers that go on. Kubelet tells runtimes only of the former. One with a
// hostIP that is no address, which the API server does not look at, is none: at all addresses it would be open wider than asked for.
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
				if !at[0].IsUnspecified() { // else all addresses
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

package labels

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// A static pod is one that kubelet reads from a file or from a server of its own. Kubelet reports it to the API
// server as a mirror pod, which netmaster places like any other. While there is no mirror pod, because the API
// server is unreachable, the pod's own annotations determine the network, and the runtime's parameters the host
// ports; the annotations of its namespace are not known. Until the mirror pod exists, no policy covers the pod: it
// is isolated. A mirror pod may only be late, as after a boot or a change of the leader, and the pod cannot be
// moved once it has started: so the ADD is first refused for a while.

// hashAnnotation is the annotation in which kubelet stores the UID of a static pod: a hash.
const hashAnnotation = "kubernetes.io/config.hash"

// isStatic reports whether a pod is static. Annotations that users write to other pods do not make them static.
func isStatic(uid string, annotations map[string]string) bool {
	return mastercfg.IsHash(uid) && uid == annotations[hashAnnotation]
}

// A static pod counts as one without a mirror pod if there is none staticTime after the first attempt to start it.
// After a pause of staticRest an attempt counts as the first again: kubelet retries about every 15 seconds.
const (
	staticTime = time.Minute
	staticRest = 2 * time.Minute
)

// mirrorless are the static pods that were not placed yet when their start was attempted.
type mirrorless struct {
	mu   sync.Mutex
	pods map[string]attempts // by UID
}

// attempts are the times of the first and the last attempt to start a pod.
type attempts struct{ first, last time.Time }

// tried records an attempt, and reports whether attempts have been made for long enough.
func (m *mirrorless) tried(uid string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.pods, func(_ string, a attempts) bool { return now.Sub(a.last) > staticRest })
	if m.pods == nil {
		m.pods = map[string]attempts{}
	}
	a := attempts{now, now}
	if before, again := m.pods[uid]; again {
		a.first = before.first
	}
	m.pods[uid] = a
	return now.Sub(a.first) >= staticTime
}

// withoutMirror returns the identity of a static pod by its own annotations.
func withoutMirror(uid string, told *netconf.RuntimeConfig) (Identity, error) {
	annotations := told.Annotations
	at := resolve(&netconf.Conf{}, func(label string) string { return annotations[label] })
	at.PodUID = uid
	for _, one := range []struct {
		annotation string
		address    *netip.Addr
	}{{mastercfg.IPv4Annotation, &at.IPv4}, {mastercfg.IPv6Annotation, &at.IPv6}} {
		text := annotations[one.annotation]
		if text == "" {
			continue
		}
		var err error
		if *one.address, err = netip.ParseAddr(text); err != nil {
			return Identity{}, fault.New(fault.Invalid, "annotation %s of static pod %s: %w", one.annotation, uid, err)
		}
	}
	var err error
	if at.HostPorts, err = hostPorts(told.PortMappings); err != nil {
		return Identity{}, fault.New(fault.Invalid, "runtimeConfig.portMappings of static pod %s: %w", uid, err)
	}
	return at, nil
}

// hostPorts returns the host ports that the runtime passes. Those of sidecars are missing: kubelet does not pass
// them.
func hostPorts(told []netconf.PortMapping) (all []mastercfg.HostPort, err error) {
	const most = 65535
	for _, m := range told {
		if m.HostPort == 0 {
			continue
		}
		port := mastercfg.HostPort{Protocol: strings.ToLower(m.Protocol), Port: uint16(m.HostPort), To: uint16(m.ContainerPort)}
		if port.Protocol == "" {
			port.Protocol = "tcp"
		}
		switch {
		case m.HostPort < 0 || m.HostPort > most:
			return nil, fault.New(fault.Invalid, "hostPort %d: want 1 to %d", m.HostPort, most)
		case m.ContainerPort < 1 || m.ContainerPort > most:
			return nil, fault.New(fault.Invalid, "containerPort %d: want 1 to %d", m.ContainerPort, most)
		case !slices.Contains([]string{"tcp", "udp", "sctp"}, port.Protocol):
			return nil, fault.New(fault.Invalid, "protocol %q: want tcp, udp or sctp", m.Protocol)
		}
		if m.HostIP != "" {
			at, err := netip.ParseAddr(m.HostIP)
			if err != nil || at.Zone() != "" {
				return nil, fault.New(fault.Invalid, "hostIP %q is no IP address of a node", m.HostIP)
			}
			if !at.IsUnspecified() { // else all addresses
				port.Address = at.Unmap()
			}
		}
		if !slices.Contains(all, port) {
			all = append(all, port)
		}
	}
	return all, nil
}

package life

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/ports"
)

// told: what a pod or a service is refused, and what operators should know of a service that works, are events of
// it.
func (s *story) told() {
	must := func(_ string, err error) {
		s.Helper()
		s.must(err)
	}
	const space = "told"
	node := s.Nodes[0]
	taken, err := node.Start("taken", node.Tool("probe"), "serve", "-tcp", "30080,30081", "-udp", "9053")
	s.must(err)
	s.Cleanup(func() { _ = taken.Kill() })
	must(s.Netctl(s.ctx, "network", "create", "-s", "10.79.0.0/30", "-g", "10.79.0.1", "small")) // of one pod
	must(s.Netctl(s.ctx, "tenant", "create", "green"))
	must(s.Netctl(s.ctx, "network", "create", "-t", "green", "-s", "10.78.0.0/24", "-g", "10.78.0.254", mastercfg.DefaultNetwork))
	must(s.Kubectl(s.ctx, "create", "namespace", space))
	must(s.Kubectl(s.ctx, "annotate", "namespace", space, "io.contiv.allowed-tenants=green"))

	pod := func(name string, hostPort int, hostIP string, annotations object) {
		s.Helper()
		p := podOn(name, node.Name, hostPort)
		p["metadata"] = object{"name": name, "labels": object{"app": "web"}, "annotations": annotations}
		container := p["spec"].(object)["containers"].([]object)[0]
		container["readinessProbe"] = object{"tcpSocket": object{"port": podPort}}
		if hostIP != "" {
			container["ports"].([]object)[0]["hostIP"] = hostIP
		}
		s.soon(func() error { // a new namespace has no service account yet
			return s.api.Do(s.ctx, http.MethodPost, "/api/v1/namespaces/"+space+"/pods", p, nil)
		})
	}
	service := func(name string, spec object) {
		s.Helper()
		spec["selector"] = object{"app": "web"}
		s.must(s.api.Do(s.ctx, http.MethodPost, "/api/v1/namespaces/"+space+"/services",
			object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": name}, "spec": spec}, nil))
	}
	served := func(nodePort int) []object {
		p := object{"port": podPort}
		if nodePort != 0 {
			p["nodePort"] = nodePort
		}
		return []object{p}
	}
	service("outer", object{"ports": served(0), "externalIPs": []string{"198.51.100.77"}})
	service("node", object{"ports": served(30080), "type": "NodePort"})
	service("asked", object{"ports": served(0), "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30081})
	pod("first", 0, "", object{mastercfg.NetworkLabel: "small"})
	pod("wide", 9055, "::", nil) // which is all addresses to us, and one to kubelet
	for _, name := range []string{"first", "wide"} {
		s.soon(func() error { // else the next one may get the address, or the port
			out, err := s.Kubectl(s.ctx, "--namespace", space, "get", "pod", name, "-o", "jsonpath={.status.podIP}")
			if err == nil && out == "" {
				err = fmt.Errorf("pod %s has no address yet", name)
			}
			return err
		})
	}
	pod("second", 0, "", object{mastercfg.NetworkLabel: "small"})
	pod("foreign", 0, "", object{mastercfg.TenantLabel: "green"})
	pod("host", 9053, "", nil)
	pod("narrow", 9055, node.MgmtIP, nil)
	pod("tunnel", ports.VXLAN, "", nil)
	for _, want := range []struct{ name, reason string }{
		{"outer", "ExternalIPUsed"}, {"outer", "ServiceSpansTenants"}, {"node", mastercfg.NodePortInUse}, {"asked", mastercfg.HealthPortClosed},
		{"second", "PoolExhausted"}, {"host", mastercfg.HostPortInUse}, {"foreign", mastercfg.ProbesNotReached},
		{"narrow", mastercfg.HostPortConflict}, {"tunnel", mastercfg.HostPortConflict},
	} {
		s.soon(func() error { return s.toldOfPod(want.reason, space, want.name) })
	}
	// Events name the pod with the port; a deleted pod no longer has it.
	says := func(name, words string) error {
		out, err := s.Kubectl(s.ctx, "--namespace", space, "get", "events", "--field-selector", "reason="+mastercfg.HostPortConflict+",involvedObject.name="+name,
			"-o", "jsonpath={.items[*].message}")
		if err == nil && !strings.Contains(out, words) {
			err = fmt.Errorf("of pod %s it is told %q, want %q", name, out, words)
		}
		return err
	}
	s.must(says("narrow", "which pod "+space+"/wide"))
	s.must(says("tunnel", "which the node needs itself"))
	must(s.Kubectl(s.ctx, "--namespace", space, "delete", "pod", "wide", "--timeout", podLimit.String()))
	must(s.Kubectl(s.ctx, "--namespace", space, "wait", "pod/narrow", "--for=condition=Ready", "--timeout", podLimit.String()))
	must(s.Kubectl(s.ctx, "delete", "namespace", space, "--timeout", podLimit.String()))
}

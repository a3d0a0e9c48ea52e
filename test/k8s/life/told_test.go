package life

import (
	"errors"
	"net/http"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// told: what a pod or a service does not get, and what somebody should know of a service that it does, are events of it.
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

	pod := func(name string, hostPort int, annotations object) {
		s.Helper()
		p := podOn(name, node.Name, hostPort)
		p["metadata"] = object{"name": name, "labels": object{"app": "web"}, "annotations": annotations}
		p["spec"].(object)["containers"].([]object)[0]["readinessProbe"] = object{"tcpSocket": object{"port": podPort}}
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
	port := func(nodePort int) []object {
		p := object{"port": podPort}
		if nodePort != 0 {
			p["nodePort"] = nodePort
		}
		return []object{p}
	}
	service("outer", object{"ports": port(0), "externalIPs": []string{"198.51.100.77"}})
	service("node", object{"ports": port(30080), "type": "NodePort"})
	service("asked", object{"ports": port(0), "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30081})
	pod("first", 0, object{mastercfg.NetworkLabel: "small"})
	s.soon(func() error { // else the second one may get the address
		out, err := s.Kubectl(s.ctx, "--namespace", space, "get", "pod", "first", "-o", "jsonpath={.status.podIP}")
		if err == nil && out == "" {
			err = errors.New("pod first has no address yet")
		}
		return err
	})
	pod("second", 0, object{mastercfg.NetworkLabel: "small"})
	pod("foreign", 0, object{mastercfg.TenantLabel: "green"})
	pod("host", 9053, nil)
	for _, want := range []struct{ name, reason string }{
		{"outer", "ExternalIPUsed"}, {"outer", "ServiceSpansTenants"}, {"node", mastercfg.NodePortInUse}, {"asked", mastercfg.HealthPortClosed},
		{"second", "PoolExhausted"}, {"host", mastercfg.HostPortInUse}, {"foreign", mastercfg.ProbesNotReached},
	} {
		s.soon(func() error { return s.toldOfPod(want.reason, space, want.name) })
	}
	must(s.Kubectl(s.ctx, "delete", "namespace", space, "--timeout", podLimit.String()))
}

package life

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// probedNetworks is where kubelet reaches pods of other tenants.
const probedNetworks = "blue=10.77.0.0/24"

// tenants: a tenant accepts new pods and services of the namespaces that it names, and of no others; existing ones
// stay. Kubelet's probes reach them.
func (s *story) tenants() {
	must := func(_ string, err error) {
		s.Helper()
		s.must(err)
	}
	const space = "shop"
	must(s.Netctl(s.ctx, "tenant", "create", "blue"))
	must(s.Netctl(s.ctx, "network", "create", "-t", "blue", "-s", "10.77.0.0/24", "-g", "10.77.0.254", mastercfg.DefaultNetwork))
	must(s.Kubectl(s.ctx, "create", "namespace", space))
	must(s.Kubectl(s.ctx, "annotate", "namespace", space, mastercfg.TenantLabel+"=blue"))
	s.must(s.api.Do(s.ctx, http.MethodPost, "/api/v1/namespaces/"+space+"/services", object{"apiVersion": "v1", "kind": "Service",
		"metadata": object{"name": "web"}, "spec": object{"ports": []object{{"port": 80}}}}, nil)) // of nobody, so that its tenant is the namespace's

	for _, step := range []struct {
		namespaces, pod string
		taken           bool
	}{{"elsewhere", "early", false}, {"elsewhere," + space, "welcome", true}, {"elsewhere", "late", false}, {"", "all", true}} {
		must(s.Netctl(s.ctx, "tenant", "update", "--namespaces", step.namespaces, "blue"))
		s.soon(func() error {
			services, err := s.Keys(s.ctx, mastercfg.K8sServicePrefix+"blue/")
			if err == nil && strings.Contains(services, space+"/web") != step.taken {
				err = fmt.Errorf("for %q: services of the tenant are %q", step.namespaces, services)
			}
			return err
		})
		s.soon(func() error { // a new namespace has no service account yet
			return s.api.Do(s.ctx, http.MethodPost, "/api/v1/namespaces/"+space+"/pods", probed(step.pod, s.Nodes[0].Name), nil)
		})
		s.soon(func() error {
			if !step.taken {
				return s.toldOfPod("TenantNotAllowed", space, step.pod)
			}
			var p pod
			err := s.api.Do(s.ctx, http.MethodGet, "/api/v1/namespaces/"+space+"/pods/"+step.pod, nil, &p)
			if err = attached(p, err); err == nil && !strings.HasPrefix(p.Status.PodIP, "10.77.0.") {
				err = fmt.Errorf("pod %s has %s, which is not of tenant blue", step.pod, p.Status.PodIP)
			}
			return err
		})
		if step.taken {
			must(s.Kubectl(s.ctx, "--namespace", space, "wait", "pod/"+step.pod, "--for=condition=Ready", "--timeout", podLimit.String()))
		}
	}
	s.hook(space)
	must(s.Kubectl(s.ctx, "delete", "namespace", space, "--timeout", podLimit.String()))
}

// hook: processes of nodes reach a service of the tenant at its cluster address, as an API server does that asks a
// webhook.
func (s *story) hook(space string) {
	s.Helper()
	p := probed("hook", s.Nodes[0].Name)
	p["metadata"].(object)["labels"] = object{"app": "hook"}
	s.must(s.api.Do(s.ctx, http.MethodPost, "/api/v1/namespaces/"+space+"/pods", p, nil))
	var service struct{ Spec struct{ ClusterIP string } }
	s.must(s.api.Do(s.ctx, http.MethodPost, "/api/v1/namespaces/"+space+"/services", object{"apiVersion": "v1", "kind": "Service",
		"metadata": object{"name": "hook"}, "spec": object{"selector": object{"app": "hook"}, "ports": []object{{"port": 443, "targetPort": podPort}}}}, &service))
	s.soon(func() error {
		ctx, cancel := context.WithTimeout(s.ctx, 2*time.Second)
		defer cancel()
		conn, err := s.Nodes[0].DialContext(ctx, "tcp", net.JoinHostPort(service.Spec.ClusterIP, "443"))
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// probed returns a pod with a readiness probe of kubelet.
func probed(name, node string) object {
	pod := podOn(name, node, 0)
	container := pod["spec"].(object)["containers"].([]object)[0]
	container["readinessProbe"] = object{"tcpSocket": object{"port": podPort}, "periodSeconds": 1, "timeoutSeconds": 1}
	return pod
}

// toldOfPod returns an error if there is no event of a reason about a pod.
func (s *story) toldOfPod(reason, namespace, pod string) error {
	out, err := s.Kubectl(s.ctx, "--namespace", namespace, "get", "events", "--field-selector", "reason="+reason+",involvedObject.name="+pod, "-o", "name")
	if err == nil && out == "" {
		err = fmt.Errorf("no event %s about pod %s", reason, pod)
	}
	return err
}

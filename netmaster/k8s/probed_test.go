package k8s

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Probes that kubelet sends to a pod's own address count, also in what a cache retains of a pod.
func TestWhetherKubeletProbesAPodOverTheNetwork(t *testing.T) {
	http := func(host string) *corev1.HTTPGetAction {
		return &corev1.HTTPGetAction{Host: host, Port: intstr.FromInt32(80)}
	}
	tcp := func(host string) *corev1.TCPSocketAction {
		return &corev1.TCPSocketAction{Host: host, Port: intstr.FromInt32(80)}
	}
	probe := func(h corev1.ProbeHandler) *corev1.Probe { return &corev1.Probe{ProbeHandler: h} }
	for what, c := range map[string]struct {
		container corev1.Container
		want      bool
	}{
		"no probe":           {corev1.Container{Ports: []corev1.ContainerPort{{ContainerPort: 80}}}, false},
		"a command":          {corev1.Container{LivenessProbe: probe(corev1.ProbeHandler{Exec: &corev1.ExecAction{}})}, false},
		"http":               {corev1.Container{ReadinessProbe: probe(corev1.ProbeHandler{HTTPGet: http("")})}, true},
		"http elsewhere":     {corev1.Container{ReadinessProbe: probe(corev1.ProbeHandler{HTTPGet: http("example.org")})}, false},
		"tcp":                {corev1.Container{LivenessProbe: probe(corev1.ProbeHandler{TCPSocket: tcp("")})}, true},
		"tcp elsewhere":      {corev1.Container{LivenessProbe: probe(corev1.ProbeHandler{TCPSocket: tcp("192.0.2.1")})}, false},
		"grpc":               {corev1.Container{StartupProbe: probe(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 80}})}, true},
		"a command at start": {corev1.Container{Lifecycle: &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{}}}}, false},
		"http at the end":    {corev1.Container{Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: http("")}}}, true},
	} {
		for kind, spec := range map[string]corev1.PodSpec{
			"container": {Containers: []corev1.Container{{Name: "first"}, c.container}},
			"sidecar":   {InitContainers: []corev1.Container{c.container}},
		} {
			left, err := strip(&corev1.Pod{Spec: spec})
			if err != nil {
				t.Fatal(err)
			}
			if got := isProbed(left.(*corev1.Pod)); got != c.want {
				t.Errorf("%s of a %s: %t", what, kind, got)
			}
		}
	}
}

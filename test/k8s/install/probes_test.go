package install

import (
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// A node answers plainly at its loopback address only, once it has joined: probes that asked elsewhere would end netplugin for ever.
func TestProbesOfNetpluginAskAtLoopback(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/kubernetes/base/netplugin.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var set appsv1.DaemonSet
	if err := yaml.UnmarshalStrict(text, &set); err != nil {
		t.Fatal(err)
	}
	pod := set.Spec.Template.Spec
	for _, p := range []*corev1.Probe{pod.Containers[0].ReadinessProbe, pod.Containers[0].LivenessProbe} {
		if p == nil || p.HTTPGet == nil || p.HTTPGet.Host != "127.0.0.1" || !pod.HostNetwork {
			t.Errorf("probe %+v", p)
		}
	}
}

package k8s

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestHostPortsAreThoseOfContainersAndSidecars(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	ports := func(all ...corev1.ContainerPort) corev1.Container { return corev1.Container{Ports: all} }
	sidecar, first := ports(corev1.ContainerPort{HostPort: 90, ContainerPort: 9}), ports(corev1.ContainerPort{HostPort: 91, ContainerPort: 9})
	sidecar.RestartPolicy = &always
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{sidecar, first},
		Containers: []corev1.Container{
			ports(corev1.ContainerPort{HostPort: 80, ContainerPort: 8080, HostIP: "0.0.0.0", Protocol: corev1.ProtocolTCP}, corev1.ContainerPort{ContainerPort: 1}),
			ports(corev1.ContainerPort{HostPort: 53, ContainerPort: 5353, HostIP: "192.0.2.1", Protocol: corev1.ProtocolUDP}, corev1.ContainerPort{HostPort: 53, ContainerPort: 53, HostIP: "::1"}),
		},
	}}
	stripped, err := strip(pod)
	if err != nil {
		t.Fatal(err)
	}
	all, err := hostPorts(stripped.(*corev1.Pod))
	if want := "[tcp port 80 udp 192.0.2.1:53 tcp [::1]:53 tcp port 90]"; fmt.Sprint(all) != want || err != nil {
		t.Errorf("%s, %v, want %s", all, err, want)
	}
}

// The API server does not validate hostIP.
func TestAHostIPThatIsNoAddressOpensNothing(t *testing.T) {
	for text, want := range map[string]string{
		"": "[tcp port 80]", "::": "[tcp port 80]", "::ffff:0.0.0.0": "[tcp port 80]", "127.0.0.01": "[tcp 127.0.0.1:80]",
		"localhost": "[]", "fe80::1%eth0": "[]", "192.0.2.1/24": "[]",
	} {
		all, err := hostPorts(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: 80, HostIP: text}}}}}})
		if fmt.Sprint(all) != want || (err == nil) != (want != "[]") {
			t.Errorf("%q: %s, %v, want %s", text, all, err, want)
		}
	}
}

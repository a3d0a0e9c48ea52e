package testbed

import (
	"strings"
	"testing"
)

// wireScript connects a node with a pod.
const wireScript = `
ip link add far type veth peer name eth0 netns "$1"
ip address add 10.1.1.2/24 dev far
ip address add fd00:1::2/64 dev far nodad
ip link set far up
ip -n "$1" address add 10.1.1.1/24 dev eth0
ip -n "$1" address add fd00:1::1/64 dev eth0 nodad
ip -n "$1" link set eth0 up`

func TestAPodServesBothVersionsOfIP(t *testing.T) {
	ctx, bed := newBareBed(t, Config{})
	n := bed.Nodes[0]
	pod := &Pod{Name: "both", Node: n}
	if err := pod.MakeSandbox(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Run(ctx, "sh", "-ec", wireScript, "sh", pod.Name); err != nil {
		t.Fatal(err)
	}
	if err := pod.Serve(ctx, "-name", pod.Name, "-tcp", "80"); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"10.1.1.1:80", "[fd00:1::1]:80"} {
		out, err := n.Run(ctx, pod.Probe(), "reach", "-tcp", address, "-wait", "10s")
		if err != nil || !strings.Contains(out, `"both"`) {
			t.Errorf("%s answers %s, %v", address, out, err)
		}
	}
}

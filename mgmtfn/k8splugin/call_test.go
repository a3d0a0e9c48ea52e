package k8splugin

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
)

func testCall(t *testing.T, change func(*cniwire.Request)) *call {
	t.Helper()
	r := cniwire.Request{
		Command: cniwire.Add, ContainerID: "abc", IfName: "eth0", Netns: "/run/netns/x",
		Args:  "K8S_POD_INFRA_CONTAINER_ID=infra;K8S_POD_NAME=web",
		Stdin: json.RawMessage(`{"cniVersion": "1.0.0", "name": "n"}`),
	}
	if change != nil {
		change(&r)
	}
	c, err := newCall(r)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheEndpointIsNamedAfterContainerModeAndInterface(t *testing.T) {
	for _, c := range []struct {
		mode   Mode
		ifName string
		args   string
		want   string
	}{
		{CNI, "eth0", "K8S_POD_INFRA_CONTAINER_ID=infra", "abc"},
		{Kubernetes, "eth0", "K8S_POD_INFRA_CONTAINER_ID=infra", "infra"},
		{Kubernetes, "eth0", "", "abc"},
		{CNI, "net1", "", "abc@net1"},
		{Kubernetes, "net1", "K8S_POD_INFRA_CONTAINER_ID=infra", "infra@net1"},
	} {
		call := testCall(t, func(r *cniwire.Request) { r.IfName, r.Args = c.ifName, c.args })
		if got, err := call.endpoint(c.mode); got != c.want || err != nil {
			t.Errorf("mode %s, %s, %q: endpoint %q (%v), want %q", c.mode, c.ifName, c.args, got, err, c.want)
		}
	}
	call := testCall(t, func(r *cniwire.Request) { r.Args = "K8S_POD_INFRA_CONTAINER_ID=../x" })
	if got, err := call.endpoint(Kubernetes); err == nil {
		t.Errorf("K8S_POD_INFRA_CONTAINER_ID=../x became endpoint %q", got)
	}
}

func TestTheDigestTellsDifferentAddsApart(t *testing.T) {
	digest := func(namespace string, change func(*cniwire.Request)) string {
		t.Helper()
		sum, err := testCall(t, change).digest(namespace)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	same := digest("1:2", nil)
	for name, change := range map[string]func(*cniwire.Request){
		"order of arguments": func(r *cniwire.Request) { r.Args = "K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=infra" },
		"previous result":    func(r *cniwire.Request) { r.Stdin = []byte(`{"cniVersion": "1.0.0", "name": "n", "prevResult": {}}`) },
		"version":            func(r *cniwire.Request) { r.Stdin = []byte(`{"cniVersion": "1.1.0", "name": "n"}`) },
		"path":               func(r *cniwire.Request) { r.Path = "/elsewhere" },
	} {
		if digest("1:2", change) != same {
			t.Errorf("another %s makes another ADD", name)
		}
	}
	for name, change := range map[string]func(*cniwire.Request){
		"label":   func(r *cniwire.Request) { r.Args += ";IO_CONTIV_TENANT=blue" },
		"tenant":  func(r *cniwire.Request) { r.Stdin = []byte(`{"cniVersion": "1.0.0", "name": "n", "tenant": "blue"}`) },
		"mtu":     func(r *cniwire.Request) { r.Stdin = []byte(`{"cniVersion": "1.0.0", "name": "n", "mtu": 1400}`) },
		"network": func(r *cniwire.Request) { r.Stdin = []byte(`{"cniVersion": "1.0.0", "name": "other"}`) },
		"path":    func(r *cniwire.Request) { r.Netns = "/run/netns/y" },
	} {
		if digest("1:2", change) == same {
			t.Errorf("another %s is not noticed", name)
		}
	}
	if digest("1:3", nil) == same {
		t.Error("another namespace behind the same path is not noticed")
	}
}

func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		`{"command":"ADD","containerID":"c","netns":"/n","ifname":"eth0","args":"A=B;C=D=E;;","path":"/p","stdin":{"cniVersion":"1.1.0","name":"n"}}`,
		`{"command":"GC","stdin":{"cniVersion":"1.1.0","name":"n","cni.dev/valid-attachments":[{"containerID":"c","ifname":"eth0"}]}}`,
		`{"command":"ADD","stdin":null}`, `{"stdin":"x"}`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r cniwire.Request
		if err := decodeRequest(data, &r); err != nil {
			return
		}
		c, err := newCall(r)
		if err != nil {
			var e *types.Error
			if !errors.As(err, &e) || e.Code == 0 {
				t.Errorf("refused with %v, which has no CNI code", err)
			}
			return
		}
		if c.conf != nil {
			if _, err := c.digest("1:2"); err != nil {
				t.Errorf("digest: %v", err)
			}
		}
		if commandNeeds[r.Command].attachment {
			if err := c.id.Validate(); err != nil {
				t.Errorf("accepted %q: %v", c.id, err)
			}
		}
	})
}

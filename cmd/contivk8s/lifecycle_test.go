package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/test/fakenode"
)

// containerRuntime plays the container runtime: libcni, which runs the real program.
type containerRuntime struct {
	cni  *libcni.CNIConfig
	list *libcni.NetworkConfigList
	node *fakenode.Node
}

func newRuntime(t *testing.T, node *fakenode.Node, version, fields string) *containerRuntime {
	t.Helper()
	list, err := libcni.ConfListFromBytes(fmt.Appendf(nil,
		`{"cniVersion": %q, "name": "contiv-net", "plugins": [{"type": "contivk8s", "socket": %q, "stateDir": %q %s}]}`,
		version, node.Socket(), node.StateDir(), fields))
	if err != nil {
		t.Fatal(err)
	}
	return &containerRuntime{cni: newCNI(t), list: list, node: node}
}

// newCNI returns the CNI library with our program and the reference plugins. It gets its executor here, as the
// library would make one on first use, without a lock.
func newCNI(t *testing.T) *libcni.CNIConfig {
	exec := &invoke.DefaultExec{RawExec: &invoke.RawExec{Stderr: io.Discard}}
	return libcni.NewCNIConfigWithCacheDir([]string{pluginDir, "/usr/lib/cni"}, t.TempDir(), exec)
}

func container(id, netns, args string) *libcni.RuntimeConf {
	rt := &libcni.RuntimeConf{ContainerID: id, NetNS: netns, IfName: "eth0"}
	for key, value := range netconf.ParseArgs(args) {
		rt.Args = append(rt.Args, [2]string{key, value})
	}
	return rt
}

func (r *containerRuntime) add(t *testing.T, c *libcni.RuntimeConf) *types100.Result {
	t.Helper()
	result, err := r.cni.AddNetworkList(context.Background(), r.list, c)
	if err != nil {
		t.Fatalf("ADD %s: %v", c.ContainerID, err)
	}
	if result.Version() != r.list.CNIVersion {
		t.Errorf("ADD %s: result of version %s, configured %s", c.ContainerID, result.Version(), r.list.CNIVersion)
	}
	current, err := types100.NewResultFromResult(result)
	if err != nil {
		t.Fatal(err)
	}
	return current
}

func (r *containerRuntime) del(t *testing.T, c *libcni.RuntimeConf) {
	t.Helper()
	if err := r.cni.DelNetworkList(context.Background(), r.list, c); err != nil {
		t.Fatalf("DEL %s: %v", c.ContainerID, err)
	}
}

// code is the CNI error code of an error, 0 for none.
func code(err error) uint {
	var e *types.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

func TestEveryVersionOfTheSpecificationGetsItsContainerConnected(t *testing.T) {
	for _, version := range netconf.Versions() {
		t.Run(version, func(t *testing.T) {
			node := fakenode.NewNode(t)
			node.Start(t)
			runtime := newRuntime(t, node, version, "")
			first := container("first", fakenode.NewNamespace(t), "")
			second := container("second", fakenode.NewNamespace(t), "")

			result := runtime.add(t, first)
			runtime.add(t, second)
			if again := runtime.add(t, first); !sameJSON(t, result, again) {
				t.Errorf("a repeated ADD answers %v, the first answered %v", again, result)
			}
			checkResult(t, result, first.NetNS, version)

			if version >= "0.4.0" {
				if err := runtime.cni.CheckNetworkList(context.Background(), runtime.list, first); err != nil {
					t.Errorf("CHECK: %v", err)
				}
			}
			if version >= "1.1.0" {
				if err := runtime.cni.GetStatusNetworkList(context.Background(), runtime.list); err != nil {
					t.Errorf("STATUS: %v", err)
				}
			}
			fakenode.InNamespace(t, first.NetNS, "ping", "-c1", "-W30", "10.1.0.3")
			fakenode.InNamespace(t, first.NetNS, "ping", "-c1", "-W30", "fd01::3")
			fakenode.InNamespace(t, second.NetNS, "ping", "-c1", "-W30", "10.1.0.1")

			for range 2 {
				runtime.del(t, first)
				runtime.del(t, second)
			}
			if left := node.Leftovers(t); left != nil {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func checkResult(t *testing.T, r *types100.Result, netns, version string) {
	t.Helper()
	if len(r.IPs) != 2 || len(r.Routes) != 2 {
		t.Fatalf("want an address and a default route of each family, got %v %v", r.IPs, r.Routes)
	}
	for i, want := range []string{"10.1.0.2/16 10.1.0.1", "fd01::2/64 fd01::1"} {
		if got := r.IPs[i].Address.String() + " " + r.IPs[i].Gateway.String(); got != want {
			t.Errorf("address %d: %s, want %s", i, got, want)
		}
	}
	if version < "0.3.0" {
		return // results had no interfaces yet
	}
	if len(r.Interfaces) != 2 || *r.IPs[0].Interface != 1 || *r.IPs[1].Interface != 1 {
		t.Fatalf("want host and container interface, addresses on the second, got %v %v", r.Interfaces, r.IPs)
	}
	host, inside := r.Interfaces[0], r.Interfaces[1]
	if host.Sandbox != "" || !strings.HasPrefix(host.Name, "vvport") || host.Mac == "" {
		t.Errorf("host interface %v", host)
	}
	if inside.Name != "eth0" || inside.Sandbox != netns || inside.Mac != "02:02:0a:01:00:02" {
		t.Errorf("container interface %v", inside)
	}
	if knows := version >= "1.1.0"; knows != (inside.Mtu == fakenode.PortMTU) {
		t.Errorf("mtu %d in a result of version %s", inside.Mtu, version)
	}
}

func sameJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Equal(x, y)
}

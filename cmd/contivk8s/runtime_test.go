package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/pending"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/utils/fault"
)

func TestADelWithoutAServerIsFinishedByTheNext(t *testing.T) {
	node := fakenode.NewNode(t)
	stop := node.Start(t)
	runtime := newRuntime(t, node, "1.1.0", "")
	pod := container("pod", fakenode.NewNamespace(t), "")
	runtime.add(t, pod)
	stop()
	for range 2 {
		runtime.del(t, pod)
	}
	if list, err := pending.Open(node.StateDir()).List(); err != nil || len(list) != 1 {
		t.Errorf("queue: %v, %v", list, err)
	}
	node.Start(t)
	node.NothingLeft(t)
}

func TestAnAddWaitsForAServerThatIsRestarting(t *testing.T) {
	node := fakenode.NewNode(t)
	runtime := newRuntime(t, node, "1.1.0", "")
	pod := container("pod", fakenode.NewNamespace(t), "")
	added := make(chan error, 1)
	go func() {
		_, err := runtime.cni.AddNetworkList(context.Background(), runtime.list, pod)
		added <- err
	}()
	node.Start(t)
	if err := <-added; err != nil {
		t.Errorf("ADD: %v", err)
	}
}

func TestLabelsComeWithTheCall(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	for name, c := range map[string]struct{ args, fields string }{
		"arguments":   {"IO_CONTIV_TENANT=blue;IO_CONTIV_NETWORK=web;IO_CONTIV_NET_GROUP=front", ""},
		"conventions": {"", `, "args": {"cni": {"labels": [{"key": "io.contiv.tenant", "value": "blue"}, {"key": "io.contiv.network", "value": "web"}]}}`},
		"fields":      {"IgnoreUnknown=1", `, "tenant": "blue", "network": "web", "group": "front"`},
	} {
		runtime := newRuntime(t, node, "1.0.0", c.fields)
		pod := container("pod", fakenode.NewNamespace(t), c.args)
		if result := runtime.add(t, pod); result.IPs[0].Address.String() != "10.2.0.2/29" {
			t.Errorf("%s: address %s, not one of network web", name, result.IPs[0].Address.String())
		}
		runtime.del(t, pod)
	}
	lost := newRuntime(t, node, "1.0.0", `, "network": "nowhere"`)
	_, err := lost.cni.AddNetworkList(context.Background(), lost.list, container("pod", fakenode.NewNamespace(t), ""))
	if code(err) != 102 || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("a network that does not exist: %v, want CNI error 102", err)
	}
	node.NothingLeft(t)
}

func TestThePoolsEndIsReported(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	runtime := newRuntime(t, node, "1.1.0", `, "tenant": "blue", "network": "web"`)
	for i := range 5 { // a /29 less network, broadcast and gateway
		runtime.add(t, container(fmt.Sprintf("pod%d", i), fakenode.NewNamespace(t), ""))
	}
	last := container("last", fakenode.NewNamespace(t), "")
	if _, err := runtime.cni.AddNetworkList(context.Background(), runtime.list, last); code(err) != 101 {
		t.Errorf("%v, want CNI error 101", err)
	}
	runtime.del(t, container("pod0", "", ""))
	runtime.add(t, last)
}

func TestErrorsOfEveryPartReachTheRuntime(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	runtime := newRuntime(t, node, "1.1.0", "")
	for call, want := range map[string]uint{fakenode.CreateEndpoint: 104, fakenode.PreparePort: 103, fakenode.Ready: 11} {
		away := fault.New(fault.Unavailable, "gone fishing")
		node.Switch.Fail(call, away)
		node.Cluster.Fail(call, away)
		_, err := runtime.cni.AddNetworkList(context.Background(), runtime.list, container("pod", fakenode.NewNamespace(t), ""))
		if code(err) != want || !strings.Contains(err.Error(), "gone fishing") {
			t.Errorf("%s: %v, want CNI error %d", call, err, want)
		}
		status := runtime.cni.GetStatusNetworkList(context.Background(), runtime.list)
		if wants := map[bool]uint{true: 50}[call == fakenode.Ready]; code(status) != wants {
			t.Errorf("STATUS while %s fails: %v, want CNI error %d", call, status, wants)
		}
		node.Switch.Fail(call, nil)
		node.Cluster.Fail(call, nil)
	}
	node.NothingLeft(t)
}

func TestGarbageCollectionIsDrivenByTheRuntime(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	runtime := newRuntime(t, node, "1.1.0", "")
	kept := container("kept", fakenode.NewNamespace(t), "")
	runtime.add(t, kept)
	runtime.add(t, container("stale", fakenode.NewNamespace(t), ""))
	err := runtime.cni.GCNetworkList(context.Background(), runtime.list, &libcni.GCArgs{
		ValidAttachments: []types.GCAttachment{{ContainerID: "kept", IfName: "eth0"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.cni.CheckNetworkList(context.Background(), runtime.list, kept); err != nil {
		t.Errorf("CHECK of the one listed: %v", err)
	}
	if left := strings.Join(node.Leftovers(t), " "); strings.Contains(left, "stale") {
		t.Errorf("left behind: %s", left)
	}
}

func TestTheProgramTakesItsPlaceInAChain(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	list, err := libcni.ConfListFromBytes(fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "contiv-net", "plugins": [
		{"type": "loopback"},
		{"type": "contivk8s", "socket": %q, "stateDir": %q},
		{"type": "tuning", "sysctl": {"net.ipv4.conf.eth0.log_martians": "1"}}]}`, node.Socket(), node.StateDir()))
	if err != nil {
		t.Fatal(err)
	}
	runtime := &containerRuntime{cni: newCNI(t), list: list, node: node}
	pod := container("pod", fakenode.NewNamespace(t), "")
	result := runtime.add(t, pod)
	var names []string
	for _, i := range result.Interfaces {
		names = append(names, i.Name)
	}
	if got := strings.Join(names, " "); got != "lo vvport1 eth0" {
		t.Errorf("interfaces %s", got)
	}
	for _, ip := range result.IPs {
		if want := map[bool]int{true: 0, false: 2}[ip.Address.IP.IsLoopback()]; *ip.Interface != want {
			t.Errorf("address %s on interface %d, want %d", ip.Address.String(), *ip.Interface, want)
		}
	}
	if err := runtime.cni.CheckNetworkList(context.Background(), list, pod); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	runtime.del(t, pod)
	node.NothingLeft(t)
}

func TestTheReferenceToolDrivesTheWholeLife(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	confDir := t.TempDir()
	conf := fmt.Appendf(nil, `{"cniVersion": "1.1.0", "name": "contiv-net", "plugins": [{"type": "contivk8s", "socket": %q, "stateDir": %q}]}`,
		node.Socket(), node.StateDir())
	if err := os.WriteFile(filepath.Join(confDir, "10-contiv.conflist"), conf, 0o600); err != nil {
		t.Fatal(err)
	}
	netns := fakenode.NewNamespace(t)
	for _, verb := range []string{"status", "add", "add", "check", "del", "del", "gc"} {
		cmd := exec.Command(filepath.Join(pluginDir, "cnitool"), verb, "contiv-net", netns)
		cmd.Env = append(os.Environ(), "NETCONFPATH="+confDir, "CNI_PATH="+pluginDir, "CNI_ARGS=IO_CONTIV_TENANT=blue;IO_CONTIV_NETWORK=web")
		out, err := cmd.CombinedOutput()
		if err != nil || verb == "add" && !strings.Contains(string(out), "10.2.0.2/29") {
			t.Errorf("cnitool %s: %v\n%s", verb, err, out)
		}
	}
	node.NothingLeft(t)
}

func TestFiftyProgramsAtATimeAreServed(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	runtime := newRuntime(t, node, "1.1.0", "")
	var group sync.WaitGroup
	for i := range 50 {
		pod := container(fmt.Sprintf("pod%d", i), fakenode.NewNamespace(t), "")
		group.Go(func() {
			if _, err := runtime.cni.AddNetworkList(context.Background(), runtime.list, pod); err != nil {
				t.Errorf("ADD %s: %v", pod.ContainerID, err)
				return
			}
			if err := runtime.cni.DelNetworkList(context.Background(), runtime.list, pod); err != nil {
				t.Errorf("DEL %s: %v", pod.ContainerID, err)
			}
		})
	}
	group.Wait()
	node.NothingLeft(t)
}

package k8splugin_test

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/fakenode"
)

// A plugin that calls others may add a further interface to a pod by a second ADD of the same sandbox. Each has an
// address of its own and is removed alone; host ports lead to the first one, through which answers leave.
func TestAPodMayHaveSeveralInterfaces(t *testing.T) {
	node := fakenode.NewNode(t)
	config := node.Config()
	config.Mode, config.Labels = k8splugin.Kubernetes, withPorts{"web": {{Protocol: "tcp", Port: 8080, To: 80}}}
	server, err := k8splugin.New(config)
	if err != nil {
		t.Fatal(err)
	}
	node.Run(t, server)
	netns := fakenode.NewNamespace(t)
	of := func(command, ifName string) cniwire.Request {
		r := request(command, "pod", netns, "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=u1")
		r.IfName = ifName
		return r
	}
	is := func(when string, want ...string) {
		t.Helper()
		got, err := node.Cluster.Endpoints()
		if slices.Sort(got); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s: endpoints %v (%v), want %v", when, got, err, want)
		}
		for _, p := range server.HostPorts() {
			if p.HostPort != (mastercfg.HostPort{Protocol: "tcp", Port: 8080, To: 80}) || p.EndpointID != podEndpoint || !slices.Contains(want, podEndpoint) {
				t.Errorf("%s: port %s leads to %s", when, p, p.EndpointID)
			}
		}
		if ports := len(server.HostPorts()); slices.Contains(want, podEndpoint) != (ports == 1) {
			t.Errorf("%s: %d host ports", when, ports)
		}
		if attached := server.Attached(); slices.Contains(want, podEndpoint) != (len(attached) == 1) {
			t.Errorf("%s: attached are %v", when, attached)
		}
	}
	const second = podEndpoint + "@eth1"
	first := addressOf(t, do(t, node, of(cniwire.Add, "eth0")))
	if other := addressOf(t, do(t, node, of(cniwire.Add, "eth1"))); other == first {
		t.Errorf("both interfaces have %s", first)
	}
	is("both", podEndpoint, second)
	do(t, node, of(cniwire.Check, "eth0"))
	do(t, node, of(cniwire.Check, "eth1"))
	for range 2 {
		do(t, node, of(cniwire.Del, "eth1"))
		is("the second is deleted", podEndpoint)
	}
	fakenode.InNamespace(t, netns, "ping", "-c1", "-W30", "10.1.0.1")
	if again := addressOf(t, do(t, node, of(cniwire.Add, "eth0"))); again != first {
		t.Errorf("address %s, and %s before", again, first)
	}
	do(t, node, of(cniwire.Add, "eth1"))
	do(t, node, of(cniwire.Del, "eth0"))
	is("the first is deleted", second)
	do(t, node, of(cniwire.Check, "eth1"))
	do(t, node, of(cniwire.Del, "eth1"))
	node.NothingLeft(t)
}

// Containers without a pod are attached each on its own, and AttachedChanged is called for each ADD and DEL.
func TestEachContainerOfNoPodIsAttached(t *testing.T) {
	node := fakenode.NewNode(t)
	config := node.Config()
	var told atomic.Int32
	config.AttachedChanged = func() { told.Add(1) }
	server, err := k8splugin.New(config)
	if err != nil {
		t.Fatal(err)
	}
	node.Run(t, server)
	for i, id := range []string{"one", "two"} {
		netns := fakenode.NewNamespace(t)
		do(t, node, request(cniwire.Add, id, netns, ""))
		if attached := server.Attached(); len(attached) != i+1 || told.Load() != int32(i+1) {
			t.Errorf("after %s: %d attached, told %d times", id, len(attached), told.Load())
		}
		defer func() { do(t, node, request(cniwire.Del, id, netns, "")) }()
	}
}

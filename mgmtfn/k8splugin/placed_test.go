package k8splugin_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/labels"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/fakenode"
)

// fixed gives all pods one address.
type fixed struct{ netip.Addr }

func (f fixed) Identify(context.Context, netconf.Args, *netconf.Conf) (labels.Identity, error) {
	return labels.Identity{Tenant: "default", Network: "default-net", IPv4: f.Addr}, nil
}

func TestAPodGetsTheAddressThatItAsksFor(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t, func(c *k8splugin.Config) { c.Labels = fixed{netip.MustParseAddr("10.1.0.77")} })
	if got := addressOf(t, do(t, node, request(cniwire.Add, "pod", fakenode.NewNamespace(t), ""))); got != "10.1.0.77" {
		t.Errorf("address %s", got)
	}
	refused(t, node, request(cniwire.Add, "other", fakenode.NewNamespace(t), ""), 7)
}

// A runtime that is killed between an ADD and its own record of it makes another sandbox of the same pod, and
// never deletes the first.
func TestAnAddressIsOfThePodAndNotOfASandboxThatIsLost(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t, func(c *k8splugin.Config) { c.Labels = fixed{netip.MustParseAddr("10.1.0.77")} })
	const pod = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID="
	do(t, node, request(cniwire.Add, "lost", fakenode.NewNamespace(t), pod+"u1"))
	refused(t, node, request(cniwire.Add, "other", fakenode.NewNamespace(t), pod+"u2"), 7)
	if got := addressOf(t, do(t, node, request(cniwire.Add, "next", fakenode.NewNamespace(t), pod+"u1"))); got != "10.1.0.77" {
		t.Errorf("address %s", got)
	}
	do(t, node, request(cniwire.Del, "lost", "", "")) // if it comes after all
	do(t, node, request(cniwire.Del, "next", "", ""))
	node.NothingLeft(t)
}

// withPorts gives pods ports of the node, by their names.
type withPorts map[string][]mastercfg.HostPort

func (w withPorts) Identify(_ context.Context, args netconf.Args, _ *netconf.Conf) (labels.Identity, error) {
	return labels.Identity{Tenant: "default", Network: "default-net", HostPorts: w[args[netconf.PodName]], PodUID: args[netconf.PodUID]}, nil
}

func TestAPortOfTheNodeIsOfOnePod(t *testing.T) {
	at := func(address, protocol string) []mastercfg.HostPort {
		a, _ := netip.ParseAddr(address) // empty: all
		return []mastercfg.HostPort{{Address: a, Protocol: protocol, Port: 54323, To: 80}}
	}
	var changes atomic.Int32
	node := fakenode.NewNode(t)
	config := node.Config()
	config.Labels = withPorts{"one": at("127.0.0.1", "tcp"), "two": at("192.0.2.1", "tcp"), "three": at("192.0.2.1", "udp"), "greedy": at("", "tcp"), "four": at("", "sctp"), "kubelet": {{Protocol: "tcp", Port: 10250, To: 80}}}
	config.HoldsPort = func(p mastercfg.HostPort) bool { return p.Port == 10250 }
	config.HostPortsChanged = func() { changes.Add(1) }
	var told sync.Map // why pods do not get their ports
	config.TellPorts = func(uid, why string) { told.Store(uid, why) }
	tells := func(uid, want string) {
		t.Helper()
		if why, _ := told.Load(uid); why != want {
			t.Errorf("%s is told %q, want %q", uid, why, want)
		}
	}
	server, err := k8splugin.New(config)
	if err != nil {
		t.Fatal(err)
	}
	node.Run(t, server)
	pod := func(container, name string) cniwire.Request {
		return request(cniwire.Add, container, fakenode.NewNamespace(t), "K8S_POD_NAMESPACE=shop;K8S_POD_UID=u-"+name+";K8S_POD_NAME="+name)
	}
	for _, name := range []string{"one", "two", "three", "four", "without"} {
		do(t, node, pod("c-"+name, name))
	}
	if n := changes.Load(); n != 4 {
		t.Errorf("told of %d changes, want 4", n)
	}
	e := refused(t, node, pod("c-greedy", "greedy"), 11)
	for _, word := range []string{"HostPortConflict", "shop/greedy", "tcp port 54323", "shop/one"} {
		if !strings.Contains(e.Msg, word) {
			t.Errorf("%q does not say %q", e.Msg, word)
		}
	}
	again := request(cniwire.Add, "c-one-again", fakenode.NewNamespace(t), "K8S_POD_NAMESPACE=shop;K8S_POD_UID=u-again;K8S_POD_NAME=one")
	if e := refused(t, node, again, 11); !strings.Contains(e.Msg, "pod shop/one (UID u-again) asks for tcp 127.0.0.1:54323") || !strings.Contains(e.Msg, "pod shop/one (UID u-one) has") {
		t.Errorf("a pod that is made again while the one before is there: %q", e.Msg)
	}
	if e := refused(t, node, pod("c-kubelet", "kubelet"), 11); !strings.Contains(e.Msg, "HostPortConflict: pod shop/kubelet asks for tcp port 10250") {
		t.Errorf("a port of the node itself: %q", e.Msg)
	}
	tells("u-one", "")
	tells("u-kubelet", "pod shop/kubelet asks for tcp port 10250 of this node, which the node needs itself: ask for another one")
	tells("u-greedy", strings.TrimPrefix(e.Msg[strings.Index(e.Msg, "HostPortConflict"):], "HostPortConflict: "))
	// The new sandbox of a pod takes over its ports.
	do(t, node, pod("d-one", "one"))
	leads := map[string]string{}
	for _, p := range server.HostPorts() {
		leads[p.String()] = p.EndpointID
	}
	if len(leads) != 4 || leads["tcp 127.0.0.1:54323"] != "default-net.default-d-one" {
		t.Errorf("host ports %v", leads)
	}
	for _, container := range []string{"c-one", "d-one", "c-two"} {
		do(t, node, request(cniwire.Del, container, "", ""))
	}
	do(t, node, pod("c-greedy", "greedy"))
	tells("u-greedy", "")
	if got := server.HostPorts(); len(got) != 3 {
		t.Errorf("host ports %v", got)
	}
}

// A container of a pod may have a host port at one address, and a sidecar the same number at all of them: each
// leads to its own. Of two at the same address, which the API server does not refuse for a container and a
// sidecar, the first one counts.
func TestAPodHasAPortAtOneAddressAndAtAllOfThem(t *testing.T) {
	loopback := mastercfg.HostPort{Address: netip.MustParseAddr("127.0.0.1"), Protocol: "tcp", Port: 54001, To: 8080}
	everywhere := mastercfg.HostPort{Protocol: "tcp", Port: 54001, To: 8090}
	again := everywhere
	again.To = 8091
	node := fakenode.NewNode(t)
	config := node.Config()
	config.Labels = withPorts{"both": {loopback, everywhere, again}}
	server, err := k8splugin.New(config)
	if err != nil {
		t.Fatal(err)
	}
	node.Run(t, server)
	do(t, node, request(cniwire.Add, "c", fakenode.NewNamespace(t), "K8S_POD_NAMESPACE=shop;K8S_POD_UID=u;K8S_POD_NAME=both"))
	var got []mastercfg.HostPort
	for _, p := range server.HostPorts() {
		got = append(got, p.HostPort)
	}
	if want := []mastercfg.HostPort{loopback, everywhere}; !slices.Equal(got, want) {
		t.Errorf("ports %v lead into the pod, want %v", got, want)
	}
}

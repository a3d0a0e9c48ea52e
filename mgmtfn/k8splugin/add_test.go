package k8splugin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel/limits"
	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/utils/fault"
)

func TestAnAddThatFailsAnywhereLeavesNothing(t *testing.T) {
	for _, c := range []struct {
		call string
		err  error
		code uint
	}{
		{fakenode.Ready, errors.New("first sync is pending"), 11},
		{fakenode.PreparePort, fault.New(fault.Unavailable, "no switch"), 103},
		{fakenode.CreateEndpoint, fault.New(fault.Exhausted, "address pool of network web is exhausted"), 101},
		{fakenode.CreateEndpoint, fault.New(fault.NotFound, "key not found: web.blue"), 102},
		{fakenode.CreateEndpoint, fault.New(fault.MissingReference, "group gone"), 102},
		{fakenode.CreateEndpoint, fault.New(fault.Unavailable, "no leader"), 104},
		{fakenode.CreateEndpoint, errors.New("a bug"), 100},
		{fakenode.Attach, fault.New(fault.Unavailable, "flows refused"), 103},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.call, c.code), func(t *testing.T) {
			node := fakenode.NewNode(t)
			node.Start(t)
			node.Switch.Fail(c.call, c.err)
			node.Cluster.Fail(c.call, c.err)
			add := request(cniwire.Add, "pod", fakenode.NewNamespace(t), "")
			e := refused(t, node, add, c.code)
			if !strings.Contains(e.Msg, c.err.Error()) {
				t.Errorf("message %q does not give the cause %q", e.Msg, c.err)
			}
			if left := node.Leftovers(t); left != nil {
				t.Errorf("left behind: %v", left)
			}
			node.Switch.Fail(c.call, nil)
			node.Cluster.Fail(c.call, nil)
			do(t, node, add)
		})
	}
}

func TestAnInterfaceThatCannotBeConfiguredFailsTheAdd(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	netns := fakenode.NewNamespace(t)
	fakenode.InNamespace(t, netns, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "other")
	e := refused(t, node, request(cniwire.Add, "pod", netns, ""), 103)
	if !strings.Contains(e.Msg, "eth0") || !strings.Contains(e.Msg, "file exists") {
		t.Errorf("message %q does not say that eth0 exists", e.Msg)
	}
	if left := node.Leftovers(t); left != nil {
		t.Errorf("left behind: %v", left)
	}

	tooBig := request(cniwire.Add, "pod", fakenode.NewNamespace(t), "")
	tooBig.Stdin = json.RawMessage(`{"cniVersion": "1.1.0", "name": "contiv-net", "mtu": 9000}`)
	refused(t, node, tooBig, 7)
	if left := node.Leftovers(t); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

// What the switch sends before its side of the link is up is lost.
func TestAnAddWaitsForTheSwitchSideOfTheLink(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	const host = "/proc/self/ns/net"
	node.Switch.Watch(func(call string) {
		if call == fakenode.PreparePort+" done" {
			fakenode.InNamespace(t, host, "ip", "link", "set", "vvport1", "down")
		}
	})
	netns := fakenode.NewNamespace(t)
	answered := make(chan error, 1)
	go func() {
		_, err := node.Do(request(cniwire.Add, "pod", netns, ""))
		answered <- err
	}()
	fakenode.Eventually(t, "the container's side is up", func() bool {
		return strings.Contains(fakenode.InNamespace(t, netns, "ip", "-o", "link"), "eth0") &&
			strings.Contains(fakenode.InNamespace(t, netns, "ip", "-o", "link", "show", "eth0"), ",UP>")
	})
	select {
	case err := <-answered:
		t.Errorf("answered with %v before the switch side is up", err)
	case <-time.After(50 * time.Millisecond): // it may be as slow as it likes
		fakenode.InNamespace(t, host, "ip", "link", "set", "vvport1", "up")
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
	do(t, node, request(cniwire.Del, "pod", netns, ""))
	node.NothingLeft(t)
}

func TestABadRequestIsRefusedBeforeAnythingHappens(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	netns := fakenode.NewNamespace(t)
	for name, c := range map[string]struct {
		change func(r *cniwire.Request)
		code   uint
	}{
		"unknown command":          {func(r *cniwire.Request) { r.Command = "UPDATE" }, 4},
		"no container":             {func(r *cniwire.Request) { r.ContainerID = "" }, 3},
		"container with slash":     {func(r *cniwire.Request) { r.ContainerID = "../../etc/passwd" }, 4},
		"container of 300 letters": {func(r *cniwire.Request) { r.ContainerID = strings.Repeat("a", 300) }, 4},
		"interface with slash":     {func(r *cniwire.Request) { r.IfName = "a/b" }, 4},
		"no namespace":             {func(r *cniwire.Request) { r.Netns = "" }, 4},
		"namespace that is gone":   {func(r *cniwire.Request) { r.Netns += "-gone" }, 3},
		"a file as namespace":      {func(r *cniwire.Request) { r.Netns = "/etc/passwd" }, 4},
		"another kind of namespace": {func(r *cniwire.Request) {
			r.Netns = "/proc/self/ns/uts"
		}, 4},
		"the host's namespace": {func(r *cniwire.Request) { r.Netns = "/proc/thread-self/ns/net" }, 4},
		"no configuration":     {func(r *cniwire.Request) { r.Stdin = nil }, 6},
		"unknown version":      {func(r *cniwire.Request) { r.Stdin = []byte(`{"cniVersion": "9.0.0", "name": "n"}`) }, 1},
		"somebody else's ipam": {func(r *cniwire.Request) {
			r.Stdin = []byte(`{"cniVersion": "1.0.0", "name": "n", "ipam": {"type": "host-local"}}`)
		}, 7},
		"a hardware address": {func(r *cniwire.Request) {
			r.Stdin = []byte(`{"cniVersion": "1.0.0", "name": "n", "runtimeConfig": {"mac": "02:00:00:00:00:01"}}`)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(cniwire.Add, "pod", netns, "")
			c.change(&r)
			refused(t, node, r, c.code)
			if left := node.Leftovers(t); left != nil {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// The name of a network, a tenant and a container may each be short enough.
func TestAnEndpointIDThatIsTooLongIsRefusedBeforeAnythingHappens(t *testing.T) {
	node := fakenode.NewNode(t)
	network := strings.Repeat("n", 60)
	if err := node.Cluster.AddNetwork("default", network, netip.MustParsePrefix("10.3.0.0/24"), netip.Prefix{}); err != nil {
		t.Fatal(err)
	}
	called := func(call string) {
		if call == fakenode.PreparePort || call == fakenode.CreateEndpoint {
			t.Errorf("%s is called", call)
		}
	}
	node.Switch.Watch(called)
	node.Cluster.Watch(called)
	node.Start(t)
	container := strings.Repeat("c", 200)
	e := refused(t, node, request(cniwire.Add, container, fakenode.NewNamespace(t), "IO_CONTIV_NETWORK="+network), 4)
	want := fmt.Sprintf("has %d bytes, want at most %d", len(network+".default-"+container), limits.EndpointID)
	if !strings.Contains(e.Msg, `endpoint id "nnn`) || !strings.Contains(e.Msg, want) {
		t.Errorf("message %q does not name the endpoint's id and say %q", e.Msg, want)
	}
	if left := node.Leftovers(t); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestAnAddWithOtherArgumentsReplacesTheFirst(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	netns := fakenode.NewNamespace(t)
	if got := addressOf(t, do(t, node, request(cniwire.Add, "pod", netns, ""))); got != "10.1.0.2" {
		t.Fatalf("address %s", got)
	}
	blue := "IO_CONTIV_TENANT=blue;IO_CONTIV_NETWORK=web;IO_CONTIV_NET_GROUP=front"
	if got := addressOf(t, do(t, node, request(cniwire.Add, "pod", netns, blue))); got != "10.2.0.2" {
		t.Fatalf("address %s after the move to tenant blue", got)
	}
	endpoints, err := node.Cluster.Endpoints()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"web.blue-pod"}, endpoints); diff != "" {
		t.Errorf("endpoints: %s", diff)
	}
	do(t, node, request(cniwire.Del, "pod", "", ""))
	node.NothingLeft(t)
}

func TestAContainersLeftoverInTheSameNamespaceMakesWay(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	netns := fakenode.NewNamespace(t)
	do(t, node, request(cniwire.Add, "old", netns, ""))
	do(t, node, request(cniwire.Add, "new", netns, ""))
	fakenode.InNamespace(t, netns, "ping", "-c1", "-W30", "10.1.0.1")
	do(t, node, request(cniwire.Del, "old", netns, ""))
	fakenode.InNamespace(t, netns, "ping", "-c1", "-W30", "10.1.0.1")
	do(t, node, request(cniwire.Del, "new", netns, ""))
	node.NothingLeft(t)
}

func TestARepeatedAddDoesNotPromiseAnInterfaceThatIsGone(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	netns := fakenode.NewNamespace(t)
	add := request(cniwire.Add, "pod", netns, "")
	first := do(t, node, add)
	for _, damage := range []struct {
		netns   string
		command []string
	}{
		{netns, []string{"ip", "link", "del", "eth0"}},
		{"/proc/self/ns/net", []string{"ip", "link", "set", "vvport1", "down"}},
	} {
		fakenode.InNamespace(t, damage.netns, damage.command...)
		again := do(t, node, add)
		if addressOf(t, first) != addressOf(t, again) {
			t.Errorf("%v: first %s, then %s", damage.command, first, again)
		}
		fakenode.InNamespace(t, netns, "ping", "-c1", "-W30", "10.1.0.1")
	}
}

func TestAContainerMayHaveTwoInterfaces(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	netns := fakenode.NewNamespace(t)
	do(t, node, request(cniwire.Add, "pod", netns, ""))
	second := request(cniwire.Add, "pod", netns, "IO_CONTIV_TENANT=blue;IO_CONTIV_NETWORK=web")
	second.IfName = "net1"
	result := do(t, node, second)
	if strings.Contains(string(result), "routes") {
		t.Errorf("the result names a default route, but eth0 has it: %s", result)
	}
	routes := fakenode.InNamespace(t, netns, "ip", "route", "show", "default")
	if strings.TrimSpace(routes) != "default via 10.1.0.1 dev eth0" {
		t.Errorf("default routes: %s", routes)
	}
	endpoints, err := node.Cluster.Endpoints()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"default-net.default-pod", "web.blue-pod@net1"}, endpoints); diff != "" {
		t.Errorf("endpoints: %s", diff)
	}
	first := request(cniwire.Del, "pod", netns, "")
	do(t, node, first)
	fakenode.InNamespace(t, netns, "ping", "-c1", "-W30", "10.2.0.1")
	second.Command = cniwire.Del
	do(t, node, second)
	node.NothingLeft(t)
}

func TestAnIPv6OnlyNetworkNeedsNoIPv4(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	netns := fakenode.NewNamespace(t)
	// Some runtimes do this to a container without IPv6 of its own.
	fakenode.InNamespace(t, netns, "sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6")
	result := do(t, node, request(cniwire.Add, "pod", netns, "IO_CONTIV_NETWORK=six"))
	if got := addressOf(t, result); got != "fd06::2" {
		t.Errorf("address %s", got)
	}
	fakenode.InNamespace(t, netns, "ping", "-c1", "-W30", "fd06::1")
}

func TestTheRuntimeMayAskForAnAddress(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	ask := request(cniwire.Add, "pod", fakenode.NewNamespace(t), "")
	ask.Stdin = []byte(`{"cniVersion": "1.1.0", "name": "contiv-net", "runtimeConfig": {"ips": ["10.1.7.7/16"]}}`)
	if got := addressOf(t, do(t, node, ask)); got != "10.1.7.7" {
		t.Errorf("address %s", got)
	}
	ask.ContainerID, ask.Netns = "other", fakenode.NewNamespace(t)
	refused(t, node, ask, 7)
}

func TestAnEndpointOfAnotherNodeIsNeitherUsedNorDeleted(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	theirs := mastercfg.CfgEndpointState{ID: "default-net.default-pod", NetID: "default-net.default", IPAddress: "10.1.0.9", HomingHost: "node2"}
	if err := node.Cluster.Place(theirs); err != nil {
		t.Fatal(err)
	}
	e := refused(t, node, request(cniwire.Add, "pod", fakenode.NewNamespace(t), ""), 7)
	if !strings.Contains(e.Msg, "node2") {
		t.Errorf("message %q does not say where the endpoint lives", e.Msg)
	}
	if diff := cmp.Diff([]string{"endpoint " + theirs.ID}, node.Leftovers(t)); diff != "" {
		t.Errorf("after the refused ADD: %s", diff)
	}
	// Also without the answer, which names the endpoint's node.
	node.Cluster.Fail(fakenode.CreateEndpoint, away)
	refused(t, node, request(cniwire.Add, "pod", fakenode.NewNamespace(t), ""), 104)
	if diff := cmp.Diff([]string{"endpoint " + theirs.ID}, node.Leftovers(t)); diff != "" {
		t.Errorf("after an ADD without an answer: %s", diff)
	}
}

// Nothing was made for it, and deleting foreign endpoints is denied: there is nothing to retry.
func TestAnEndpointThatIsDeniedUsIsNotDeletedForEver(t *testing.T) {
	denied := fault.New(fault.Denied, "node/node1 may not serve tenant red")
	node := fakenode.NewNode(t)
	node.Start(t)
	node.Cluster.Fail(fakenode.CreateEndpoint, denied)
	node.Cluster.Fail(fakenode.DeleteEndpoint, denied)
	refused(t, node, request(cniwire.Add, "pod", fakenode.NewNamespace(t), ""), 100)
	node.NothingLeft(t)
}

// A denial alone does not prove that there was no endpoint: an assigned one is released.
func TestAnEndpointIsDeletedWhoseDeletionIsDeniedForAWhile(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	add := request(cniwire.Add, "pod", fakenode.NewNamespace(t), "")
	do(t, node, add)
	node.Cluster.Fail(fakenode.DeleteEndpoint, fault.New(fault.Denied, "who is node1?"))
	del := add
	del.Command = cniwire.Del
	_, _ = node.Do(del)
	if left := node.Leftovers(t); !slices.Contains(left, "file "+node.StateDir()+"/pod@eth0.json") {
		t.Errorf("nothing is known of what may not be deleted: %q is left", left)
	}
	node.Cluster.Fail(fakenode.DeleteEndpoint, nil)
	node.NothingLeft(t)
}

func TestFiftyContainersAtATimeGetFiftyAddresses(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	const containers = 50
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		given = map[string]int{}
	)
	for i := range containers {
		netns := fakenode.NewNamespace(t)
		group.Go(func() {
			result, err := node.Do(request(cniwire.Add, fmt.Sprintf("pod%d", i), netns, ""))
			if err != nil {
				t.Errorf("ADD pod%d: %v", i, err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			given[addressOf(t, result)]++
		})
	}
	group.Wait()
	if len(given) != containers {
		t.Errorf("%d addresses for %d containers", len(given), containers)
	}
	for i := range containers {
		group.Go(func() {
			if _, err := node.Do(request(cniwire.Del, fmt.Sprintf("pod%d", i), "", "")); err != nil {
				t.Errorf("DEL pod%d: %v", i, err)
			}
		})
	}
	group.Wait()
	node.NothingLeft(t)
}

func TestAnAddWaitsForADatapathThatIsStarting(t *testing.T) {
	const limit = time.Second // for a request, which an ADD may exceed
	node := fakenode.NewNode(t)
	node.Start(t, func(c *k8splugin.Config) {
		c.Limits.Ready = time.Minute
		c.Limits.Request = limit
	})
	node.Switch.Fail(fakenode.Ready, errors.New("first sync is pending"))
	asked := make(chan struct{}, 1)
	node.Switch.Watch(func(call string) {
		if call == fakenode.Ready {
			select {
			case asked <- struct{}{}:
			default:
			}
		}
	})
	done := make(chan error, 1)
	add := request(cniwire.Add, "pod", fakenode.NewNamespace(t), "")
	go func() {
		_, err := node.Do(add)
		done <- err
	}()
	for began := time.Now(); time.Since(began) < 2*limit; {
		select {
		case <-asked:
		case err := <-done:
			t.Fatalf("ADD did not wait: %v", err)
		}
	}
	node.Switch.Watch(nil)
	node.Switch.Fail(fakenode.Ready, nil)
	if err := <-done; err != nil {
		t.Errorf("ADD: %v", err)
	}
}

// A server that has just started does not know the switch's ports yet. A repeated ADD waits then, and removes
// nothing.
func TestARepeatedAddWaitsUntilThePortsAreKnown(t *testing.T) {
	node := fakenode.NewNode(t)
	stop := node.Start(t)
	add := request(cniwire.Add, "pod", fakenode.NewNamespace(t), "")
	first := do(t, node, add)
	before := node.Switch.Ports()
	stop()
	node.Switch.Fail(fakenode.Ready, errors.New("ports are not known yet"))
	var known atomic.Bool
	asked := make(chan struct{}, 1)
	node.Start(t, func(c *k8splugin.Config) {
		c.Limits.Ready = time.Minute
		c.Ports = func() []drivers.Port {
			select {
			case asked <- struct{}{}:
			default:
			}
			if !known.Load() {
				return nil
			}
			return node.Switch.Ports()
		}
	})
	var again []byte
	var adding sync.WaitGroup
	adding.Go(func() { again = do(t, node, add) })
	refused(t, node, cniwire.Request{Command: cniwire.Status}, 50) // while it waits
	known.Store(true)
	node.Switch.Fail(fakenode.Ready, nil)
	adding.Wait()
	<-asked // it was evaluated
	if after := node.Switch.Ports(); string(again) != string(first) || !reflect.DeepEqual(after, before) {
		t.Errorf("%s\nwas\n%s\nports %v, before %v", again, first, after, before)
	}
}

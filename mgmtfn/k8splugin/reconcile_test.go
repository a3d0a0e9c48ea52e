package k8splugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/utils/fault"
)

const podEndpoint = "default-net.default-pod"

func pings(t *testing.T, netns string) {
	t.Helper()
	fakenode.InNamespace(t, netns, "ping", "-c1", "-W30", "10.1.0.1")
}

func knows(t *testing.T, node *fakenode.Node, id string) bool {
	t.Helper()
	ids, err := node.Cluster.Endpoints()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(ids, id)
}

func TestAnEndpointTheStoreHasLostIsAnnouncedAgainWithItsAddress(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		node := fakenode.NewNode(t)
		stop := node.Start(t)
		netns := fakenode.NewNamespace(t)
		do(t, node, request(cniwire.Add, "first", fakenode.NewNamespace(t), ""))
		result := do(t, node, request(cniwire.Add, "pod", netns, ""))
		ports := node.Switch.Ports()
		do(t, node, request(cniwire.Del, "first", "", "")) // its address is the first one free now
		if restarted {
			stop()
		}
		if err := node.Cluster.Lose(podEndpoint); err != nil {
			t.Fatal(err)
		}
		if restarted {
			node.Start(t)
		}
		fakenode.Eventually(t, "the endpoint is announced", func() bool { return knows(t, node, podEndpoint) })
		if got := do(t, node, request(cniwire.Add, "pod", netns, "")); string(got) != string(result) {
			t.Errorf("restarted %v: result %s, before %s", restarted, got, result)
		}
		do(t, node, request(cniwire.Check, "pod", netns, ""))
		pings(t, netns)
		if left := node.Switch.Ports(); len(left) != 1 || !slices.Contains(ports, left[0]) {
			t.Errorf("restarted %v: ports %v, before %v", restarted, left, ports)
		}
		do(t, node, request(cniwire.Del, "pod", "", ""))
		node.NothingLeft(t)
	}
}

func TestACheckpointOfAnEarlierReleaseIsCompleted(t *testing.T) {
	node := fakenode.NewNode(t)
	stop := node.Start(t)
	netns := fakenode.NewNamespace(t)
	do(t, node, request(cniwire.Add, "pod", netns, ""))
	stop()
	path := filepath.Join(node.StateDir(), "pod@eth0.json")
	read := func() (r map[string]any) {
		data, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(data, &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	complete := read()
	old := maps.Clone(complete)
	delete(old, "stored")
	data, err := json.Marshal(old)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil || complete["stored"] == nil {
		t.Fatalf("checkpoint %v (%v)", complete, err)
	}
	node.Start(t)
	fakenode.Eventually(t, "the records are in the checkpoint", func() bool { return reflect.DeepEqual(read()["stored"], complete["stored"]) })
	do(t, node, request(cniwire.Check, "pod", netns, ""))
}

// What netmaster says of an endpoint that is announced again may be about one that has come up elsewhere, or has other addresses.
func TestAnAnnouncedEndpointIsTheOneOfTheContainer(t *testing.T) {
	want := mastercfg.ConfigEP{Host: "node1", IPAddress: "10.1.0.2", IPv6Address: "fd01::2"}
	for name, c := range map[string]struct {
		have mastercfg.CfgEndpointState
		same bool
	}{
		"the same":             {mastercfg.CfgEndpointState{HomingHost: "node1", IPAddress: "10.1.0.2", IPv6Address: "fd01::2"}, true},
		"in another form":      {mastercfg.CfgEndpointState{HomingHost: "node1", IPAddress: "10.1.0.2", IPv6Address: "fd01:0::2"}, true},
		"on another node":      {mastercfg.CfgEndpointState{HomingHost: "node2", IPAddress: "10.1.0.2", IPv6Address: "fd01::2"}, false},
		"at another address":   {mastercfg.CfgEndpointState{HomingHost: "node1", IPAddress: "10.1.0.3", IPv6Address: "fd01::2"}, false},
		"at another one of v6": {mastercfg.CfgEndpointState{HomingHost: "node1", IPAddress: "10.1.0.2", IPv6Address: "fd01::3"}, false},
		"without IPv6":         {mastercfg.CfgEndpointState{HomingHost: "node1", IPAddress: "10.1.0.2"}, false},
	} {
		if err := k8splugin.SameEndpoint(c.have, want); c.same != (err == nil) || err != nil && !fault.Is(err, fault.Conflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAContainerWhoseAddressIsTakenMeanwhileStaysAndIsReported(t *testing.T) {
	node := fakenode.NewNode(t)
	logger, seen := logtest.NewNullLogger()
	node.Start(t, func(c *k8splugin.Config) { c.Log = logrus.NewEntry(logger) })
	netns := fakenode.NewNamespace(t)
	do(t, node, request(cniwire.Add, "pod", netns, ""))
	thief := mastercfg.CfgEndpointState{ID: "default-net.default-thief", NetID: "default-net.default",
		EndpointID: "thief", IPAddress: "10.1.0.2", IPv6Address: "fd01::2", HomingHost: "node2"}
	if err := node.Cluster.Place(thief); err != nil {
		t.Fatal(err)
	}
	if err := node.Cluster.Lose(podEndpoint); err != nil {
		t.Fatal(err)
	}
	fakenode.Eventually(t, "the refusal is reported", func() bool {
		return slices.ContainsFunc(seen.AllEntries(), func(e *logrus.Entry) bool {
			cause, _ := e.Data[logrus.ErrorKey].(error)
			return e.Level == logrus.ErrorLevel && cause != nil && strings.Contains(cause.Error(), podEndpoint) &&
				strings.Contains(cause.Error(), "10.1.0.2 is taken")
		})
	})
	pings(t, netns)
	if err := node.Cluster.Lose(thief.ID); err != nil {
		t.Fatal(err)
	}
	fakenode.Eventually(t, "the endpoint is announced in the end", func() bool { return knows(t, node, podEndpoint) })
	pings(t, netns)
}

func TestAnEndpointLostTogetherWithItsContainerIsNotAnnounced(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	netns := fakenode.NewNamespace(t)
	do(t, node, request(cniwire.Add, "pod", netns, ""))
	fakenode.EndNamespace(t, netns)
	fakenode.Eventually(t, "the link is gone with its namespace", func() bool { return len(node.Switch.Ports()) == 0 })
	if err := node.Cluster.Lose(podEndpoint); err != nil {
		t.Fatal(err)
	}
	node.NothingLeft(t)
}

func TestWithoutItsStateDirectoryTheNodeKeepsWhatLivesAndDeletesTheRest(t *testing.T) {
	node := fakenode.NewNode(t)
	stop := node.Start(t)
	netns := fakenode.NewNamespace(t)
	do(t, node, request(cniwire.Add, "pod", netns, ""))
	gone := fakenode.NewNamespace(t)
	do(t, node, request(cniwire.Add, "gone", gone, ""))
	stop()
	left, err := filepath.Glob(filepath.Join(node.StateDir(), "*.json"))
	if err != nil || len(left) != 2 {
		t.Fatalf("checkpoints %v (%v)", left, err)
	}
	if err := os.RemoveAll(node.StateDir()); err != nil {
		t.Fatal(err)
	}
	fakenode.InNamespace(t, gone, "ip", "link", "del", "eth0")
	byHand := mastercfg.CfgEndpointState{ID: "default-net.default-byhand", NetID: "default-net.default",
		EndpointID: "byhand", IPAddress: "10.1.0.77", HomingHost: fakenode.HostLabel}
	if err := node.Cluster.Place(byHand); err != nil {
		t.Fatal(err)
	}
	fresh, err := fakenode.OpenNode(node.Dir) // with no memory of former holders
	if err != nil {
		t.Fatal(err)
	}
	stop = fresh.Start(t)
	fakenode.Eventually(t, "the endpoint without a link is deleted", func() bool { return !knows(t, node, "default-net.default-gone") })
	pings(t, netns)
	if !knows(t, node, podEndpoint) {
		t.Error("the endpoint of a living container is deleted, too")
	}
	stop() // after finishing work in progress
	if !knows(t, node, byHand.ID) {
		t.Error("an endpoint that never had a port on this node is deleted, too")
	}
}

func TestOnlyWhatNoContainerUsesIsReclaimed(t *testing.T) {
	node := fakenode.NewNode(t)
	server, err := k8splugin.New(node.Config())
	if err != nil {
		t.Fatal(err)
	}
	node.Run(t, server)
	netns := fakenode.NewNamespace(t)
	do(t, node, request(cniwire.Add, "pod", netns, ""))
	if err := server.Reclaim(t.Context(), podEndpoint); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "pod@eth0") {
		t.Errorf("reclaim of a container's endpoint: %v", err)
	}
	pings(t, netns)
	if user, err := server.User(podEndpoint); user != "pod@eth0" || err != nil {
		t.Errorf("user %q (%v)", user, err)
	}
	fakenode.EndNamespace(t, netns)
	fakenode.Eventually(t, "the link is gone with its namespace", func() bool { return len(node.Switch.Ports()) == 0 })
	if user, err := server.User(podEndpoint); !fault.Is(err, fault.NotFound) {
		t.Errorf("user of an endpoint whose container is gone: %q (%v)", user, err)
	}
	if err := server.Reclaim(t.Context(), podEndpoint); err != nil {
		t.Errorf("reclaim of what is left: %v", err)
	}
	node.NothingLeft(t)
	if err := server.Reclaim(t.Context(), "default-net.default-unknown"); err != nil {
		t.Errorf("reclaim of what nobody knows: %v", err)
	}
}

// Where it cannot be told whether a container is gone, it counts as there: its address would become another's.
func TestAnEndpointIsNotReclaimedOfAContainerOfWhichNothingCanBeTold(t *testing.T) {
	node := fakenode.NewNode(t)
	server, err := k8splugin.New(node.Config())
	if err != nil {
		t.Fatal(err)
	}
	node.Run(t, server)
	netns, folder := fakenode.NewNamespace(t), filepath.Join(t.TempDir(), "netns")
	if err := os.Symlink(filepath.Dir(netns), folder); err != nil {
		t.Fatal(err)
	}
	do(t, node, request(cniwire.Add, "pod", filepath.Join(folder, filepath.Base(netns)), ""))
	fakenode.EndNamespace(t, netns)
	fakenode.Eventually(t, "the link is gone with its namespace", func() bool { return len(node.Switch.Ports()) == 0 })
	if err := errors.Join(os.Remove(folder), os.WriteFile(folder, nil, 0o600)); err != nil { // so that the path leads nowhere
		t.Fatal(err)
	}
	if user, err := server.User(podEndpoint); user != "pod@eth0" || err == nil {
		t.Errorf("user %q, %v", user, err)
	}
	if err := server.Reclaim(t.Context(), podEndpoint); err == nil || !knows(t, node, podEndpoint) {
		t.Errorf("it is reclaimed: %v", err)
	}
	do(t, node, request(cniwire.Del, "pod", "", ""))
	node.NothingLeft(t)
}

// Who asks for the undoing of an attachment may give up: what was begun is done all the same.
func TestWhatIsBegunToBeUndoneIsUndone(t *testing.T) {
	node := fakenode.NewNode(t)
	cfg := node.Config()
	ctx, cancel := context.WithCancel(t.Context())
	cfg.Master = punctual{cfg.Master}
	cfg.Limits.RetryMin, cfg.Limits.RetryMax = time.Hour, time.Hour // not by the worker
	server, err := k8splugin.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	node.Run(t, server)
	netns := fakenode.NewNamespace(t)
	do(t, node, request(cniwire.Add, "pod", netns, ""))
	fakenode.EndNamespace(t, netns)
	fakenode.Eventually(t, "the link is gone with its namespace", func() bool { return len(node.Switch.Ports()) == 0 })
	cancel()
	if err := server.Reclaim(ctx, podEndpoint); err != nil {
		t.Errorf("reclaim: %v", err)
	}
	node.NothingLeft(t)
}

// An ADD reserves its endpoint before its checkpoint is written.
func TestAnEndpointThatIsBegunIsNotReclaimed(t *testing.T) {
	node := fakenode.NewNode(t)
	config := node.Config()
	config.Labels = withPorts{"one": {{Protocol: "tcp", Port: 54323, To: 80}}}
	stored := mastercfg.CfgEndpointState{ID: podEndpoint, NetID: "default-net.default", EndpointID: "pod",
		IPAddress: "10.1.0.9", MacAddress: "02:02:0a:01:00:09", HomingHost: fakenode.HostLabel}
	if err := node.Cluster.Place(stored); err != nil { // of a container that had the name before
		t.Fatal(err)
	}
	begun, goOn := make(chan struct{}), make(chan struct{})
	config.HoldsPort = func(mastercfg.HostPort) bool { // it is asked before the checkpoint is written
		close(begun)
		<-goOn
		return false
	}
	server, err := k8splugin.New(config)
	if err != nil {
		t.Fatal(err)
	}
	node.Run(t, server)
	netns := fakenode.NewNamespace(t)
	answered := make(chan error, 1)
	go func() {
		_, err := node.Do(request(cniwire.Add, "pod", netns, "K8S_POD_NAMESPACE=shop;K8S_POD_UID=u;K8S_POD_NAME=one"))
		answered <- err
	}()
	<-begun
	if err := server.Reclaim(t.Context(), podEndpoint); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), podEndpoint) {
		t.Errorf("reclaim of an endpoint that is begun: %v", err)
	}
	former := k8splugin.Attachment{Endpoint: stored, Port: drivers.Port{EndpointID: podEndpoint, HostLink: "vvgone"},
		Network: mastercfg.CfgNetworkState{Tenant: "default", NetworkName: "default-net"}}
	if err := k8splugin.Abandon(server, t.Context(), former); err != nil || !knows(t, node, podEndpoint) {
		t.Errorf("an endpoint that is begun is deleted as one that nobody uses: %v", err)
	}
	close(goOn)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	pings(t, netns)
}

func TestAnAddWaitsUntilItsEndpointIsReclaimed(t *testing.T) {
	node := fakenode.NewNode(t)
	server, err := k8splugin.New(node.Config())
	if err != nil {
		t.Fatal(err)
	}
	node.Run(t, server)
	reclaiming, goOn, attached := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var detach, attach sync.Once
	node.Switch.Watch(func(call string) {
		switch call {
		case fakenode.Detach:
			detach.Do(func() { close(reclaiming); <-goOn })
		case fakenode.Attach + " done":
			attach.Do(func() { close(attached) })
		}
	})
	reclaimed, answered := make(chan error, 1), make(chan error, 1)
	go func() { reclaimed <- server.Reclaim(context.Background(), podEndpoint) }()
	<-reclaiming // and has found it unused
	netns := fakenode.NewNamespace(t)
	go func() {
		_, err := node.Do(request(cniwire.Add, "pod", netns, ""))
		answered <- err
	}()
	select {
	case <-attached:
		t.Error("attached while the endpoint is given up")
	case <-time.After(200 * time.Millisecond): // it may be as slow as it likes
	}
	close(goOn)
	if err := <-reclaimed; err != nil {
		t.Errorf("reclaim of what nobody uses: %v", err)
	}
	if err := <-answered; err != nil {
		t.Fatalf("ADD: %v", err)
	}
	pings(t, netns)
}

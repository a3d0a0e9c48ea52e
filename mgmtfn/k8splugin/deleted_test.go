package k8splugin_test

import (
	"context"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/labels"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
)

// recorded are records of pods by UID, and places pods in default-net.
type recorded struct {
	mu       sync.Mutex
	pods     map[string]mastercfg.K8sPod
	complete bool
}

func (r *recorded) Identify(_ context.Context, args netconf.Args, _ *netconf.Conf) (labels.Identity, error) {
	return labels.Identity{Tenant: "default", Network: "default-net", PodUID: args[netconf.PodUID]}, nil
}

func (r *recorded) record(uid string) (pod mastercfg.K8sPod, there, complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pod, there = r.pods[uid]
	return pod, there, r.complete
}

// A runtime that has lost a sandbox leaves its namespace. Once Kubernetes has deleted the pod, no DEL follows any
// more.
func TestAPodThatIsDeletedIsUndoneThoughItsNamespaceStays(t *testing.T) {
	minutes := func(n int) time.Time { return time.Unix(1e9, 0).Add(time.Duration(n) * time.Minute) }
	for what, c := range map[string]struct {
		pod    mastercfg.K8sPod
		before func(*testing.T, *recorded, string) // the first look
		after  func(*testing.T, *recorded, string) // it
		gone   bool
	}{
		"deleted":                   {mastercfg.K8sPod{Grace: 30}, nil, remove, true},
		"there":                     {mastercfg.K8sPod{Grace: 30}, nil, nil, false},
		"may take an hour":          {mastercfg.K8sPod{Grace: 3600}, nil, remove, false},
		"may take for ever":         {mastercfg.K8sPod{Grace: 1<<63 - 1}, nil, remove, false},
		"static":                    {mastercfg.K8sPod{}, nil, remove, false},
		"was never recorded":        {mastercfg.K8sPod{Grace: 30}, remove, nil, false},
		"in a state not complete":   {mastercfg.K8sPod{Grace: 30}, nil, func(t *testing.T, r *recorded, n string) { remove(t, r, n); r.complete = false }, false},
		"with a socket that it has": {mastercfg.K8sPod{Grace: 30}, nil, func(t *testing.T, r *recorded, n string) { remove(t, r, n); listen(t, n) }, false},
	} {
		t.Run(what, func(t *testing.T) {
			node, records := fakenode.NewNode(t), &recorded{pods: map[string]mastercfg.K8sPod{"u1": c.pod}, complete: true}
			config := node.Config()
			config.Labels, config.Recorded = records, records.record
			server, err := k8splugin.New(config)
			if err != nil {
				t.Fatal(err)
			}
			node.Run(t, server)
			netns := fakenode.NewNamespace(t)
			do(t, node, request(cniwire.Add, "pod", netns, "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=u1"))
			fakenode.Eventually(t, "the kernel has let go of the server's own sockets", func() bool { return !hasSockets(t, netns) })
			if c.before != nil {
				c.before(t, records, netns)
			}
			seen := k8splugin.SweepDeleted(server, t.Context(), nil, minutes(0))
			if c.after != nil {
				c.after(t, records, netns)
			}
			for n := 1; n <= 11; n++ {
				if !knows(t, node, podEndpoint) {
					t.Fatalf("gone after %d looks", n)
				}
				seen = k8splugin.SweepDeleted(server, t.Context(), seen, minutes(n))
			}
			if there := knows(t, node, podEndpoint); there == c.gone {
				t.Errorf("the endpoint is there: %v", there)
			}
			do(t, node, request(cniwire.Del, "pod", "", ""))
			node.NothingLeft(t)
		})
	}
}

func remove(_ *testing.T, r *recorded, _ string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, "u1")
}

func TestPodsThatAreDeletedAreLookedForAgainAndAgain(t *testing.T) {
	node, records := fakenode.NewNode(t), &recorded{pods: map[string]mastercfg.K8sPod{"u1": {Grace: 1}}, complete: true}
	var looked atomic.Bool
	node.Start(t, kubernetes, func(c *k8splugin.Config) {
		c.Labels = records
		c.Recorded = func(uid string) (mastercfg.K8sPod, bool, bool) {
			defer looked.Store(true)
			return records.record(uid)
		}
	})
	do(t, node, request(cniwire.Add, "pod", fakenode.NewNamespace(t), "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=u1"))
	fakenode.Eventually(t, "its record is seen", looked.Load)
	remove(t, records, "")
	fakenode.Eventually(t, "the endpoint is given back", func() bool { return !knows(t, node, podEndpoint) })
}

// listen has a process with a socket run in a namespace until the test ends.
func listen(t *testing.T, netns string) {
	t.Helper()
	process := exec.Command("nsenter", "--net="+netns, "ip", "monitor")
	ended, err := testkit.Start(process)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill() // fails only if it has ended
		<-ended
	})
	fakenode.Eventually(t, "the process has a socket", func() bool { return hasSockets(t, netns) })
}

func hasSockets(t *testing.T, netns string) bool {
	t.Helper()
	n, err := podlink.Open(netns)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	silent, err := podlink.Silent(netns, n.ID())
	if err != nil {
		t.Fatal(err)
	}
	return !silent
}

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

var agentChapters = []chapter{
	{"an agent that starts without netmasters and store waits, says so, keeps the flows, and converges when they come", anAgentStartsAlone},
	{"an agent killed at any moment of an ADD, with the runtime or without it, leaves nothing once the pod is deleted", anAgentIsKilledInAnADD},
	{"a node that misses changes which the store forgets converges when it is back", aNodeFallsBehind},
}

func TestAnAgentWaitsForItsFirstNetmaster(t *testing.T) {
	t.Parallel()
	ctx, bed := newBareBed(t, testbed.Config{Nodes: 1})
	n := bed.Nodes[0]
	if err := n.StartNetplugin(); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Poll(ctx, func() error { return saysItWaits(ctx, n) }); err != nil {
		t.Fatal(err)
	}
	if err := n.StartNetmaster(); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
}

// saysItWaits returns an error unless the agent is alive, not ready, and names the cause.
func saysItWaits(ctx context.Context, n *testbed.Node) error {
	for _, want := range []struct {
		path   string
		status int
		body   string
	}{
		{"/healthz", http.StatusOK, "ok"},
		{"/readyz", http.StatusServiceUnavailable, "store"},
	} {
		got, err := send(ctx, n, http.MethodGet, "http://127.0.0.1:9090"+want.path, nil)
		if err != nil {
			return err
		}
		if got.status != want.status || !strings.Contains(got.body, want.body) {
			return fmt.Errorf("%s: %s answers %d %q, want %d and a word about the %q", n.Name, want.path, got.status, got.body, want.status, want.body)
		}
	}
	return nil
}

func anAgentStartsAlone(s story) {
	s.tenant("blue")
	s.network("blue", "front", "10.1.1.0/24")
	a, b := s.pod(0, "a", "blue", "front", ""), s.pod(1, "b", "blue", "front", "")
	node := a.Node
	s.withoutLoss(a, b, func() {
		s.killMasters()
		flows, err := node.Flows(s.ctx)
		s.must(err)
		s.must(node.Netplugin().Kill())
		s.must(node.StartNetplugin())
		s.soon(shortly, func() error { return saysItWaits(s.ctx, node) })
		kept, err := node.Flows(s.ctx)
		s.must(err)
		if kept != flows {
			s.Errorf("flows before:\n%s\nand while the agent waits:\n%s", flows, kept)
		}
		early := s.sandbox(0, "early", "blue", "front", "")
		started := time.Now()
		if err := early.Attach(s.ctx); err == nil {
			s.Error("ADD succeeds without a netmaster")
		}
		if took := time.Since(started); took > 15*time.Second { // a request that waits for a netmaster takes 20
			s.Errorf("ADD without a netmaster fails only after %s", took)
		}
		s.startMasters()
		s.must(node.WaitReady(s.ctx))
	})
	late := s.pod(0, "late", "blue", "front", "")
	s.reachEachOther(shortly, a, b, late)
}

// cutADDs is how many ADDs are cut short, each up to an ADD's length after its start.
const (
	cutADDs  = 12
	addTakes = 60 * time.Millisecond
)

func anAgentIsKilledInAnADD(s story) {
	s.tenant("blue")
	s.network("blue", "front", "10.1.1.0/24")
	peer := s.pod(0, "peer", "blue", "front", "")
	finished := 0
	for i := range cutADDs {
		pod := s.sandbox(1, fmt.Sprintf("cut%d", i), "blue", "front", "")
		runtime, killRuntime := context.WithCancel(s.ctx)
		var add errgroup.Group
		add.Go(func() error { return pod.Attach(runtime) })
		<-time.After(rand.N(addTakes)) // the moment is under test
		s.must(pod.Node.Netplugin().Kill())
		if i%3 == 0 { // else it asks the next agent
			killRuntime()
		}
		s.must(pod.Node.StartNetplugin())
		if add.Wait() == nil {
			finished++
		}
		killRuntime()
		s.must(pod.Node.WaitReady(s.ctx))
		if i%2 == 0 { // the runtime retries, or gives the pod up
			s.must(pod.Attach(s.ctx))
			s.serve(pod)
			s.reachEachOther(shortly, pod, peer)
		}
		_, err := pod.CNI(s.ctx, "del")
		s.must(err)
	}
	s.Logf("%d of %d ADDs succeeded all the same", finished, cutADDs)
	s.soon(shortly, func() error { return endpoints(s.ctx, s.bed, 1) })
}

// linkDown is how long the node is cut off: connections to the store break.
const linkDown = 6 * time.Second

func aNodeFallsBehind(s story) {
	s.tenant("blue")
	s.network("blue", "front", "10.1.1.0/24")
	leader := s.leader()
	const elsewhere = 0 // where netctl runs
	behind := 1
	if s.bed.Nodes[behind] == leader {
		behind = 2
	}
	lonely := s.bed.Nodes[behind]
	a, b := s.pod(behind, "a", "blue", "front", ""), s.pod(elsewhere, "b", "blue", "front", "")
	old := s.pod(elsewhere, "old", "blue", "front", "")
	s.reachEachOther(shortly, a, b, old)
	etcd := s.administer(leader)

	management := func(ctx context.Context, state string) error {
		_, err := lonely.Run(ctx, "ip", "link", "set", "eth0", state)
		return err
	}
	s.afterwards(func(ctx context.Context) error { return management(ctx, "up") })
	var c *testbed.Pod
	s.withoutLoss(a, b, func() {
		s.must(management(s.ctx, "down"))
		_, err := old.CNI(s.ctx, "del")
		s.must(err)
		c = s.pod(elsewhere, "c", "blue", "front", "") // with the address that old had
		s.network("blue", "back", "10.1.2.0/24")
		s.must(compact(s.ctx, etcd))
		<-time.After(linkDown)
		s.must(management(s.ctx, "up"))
		s.reachEachOther(shortly, a, b, c)
	})
	d := s.pod(behind, "d", "blue", "back", "")
	s.reachEachOther(shortly, a, b, c, d)
}

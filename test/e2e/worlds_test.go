package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// theWorld repeats a world: a failed test prints its seed.
var theWorld = flag.Uint64("world", 0, "seed of the only random world")

const (
	worldsPerLandscape = 3
	podsOfAWorld       = 12
)

// TestLongRandomWorldsOfPodsFareAsTheOracleSays has pods of random models send requests to each other and to
// services by ping, TCP, UDP and SCTP, in packets of all sizes, and again after each change of the model, of pods,
// of providers and of agents.
func TestLongRandomWorldsOfPodsFareAsTheOracleSays(t *testing.T) {
	testkit.TakesLong(t)
	var chapters []chapter
	for _, l := range landscapes {
		for n := range worldsPerLandscape {
			chapters = append(chapters, chapter{fmt.Sprintf("%s %s %d", l.mode, l.encap, n), func(s story) { s.inhabit(l) }})
		}
	}
	tellOn(t, testbed.Config{Nodes: 3, Uplinks: 1, First: true}, chapters)
}

// inhabited is a world with its pods.
type inhabited struct {
	story
	*world
	alive map[*worldPod]*testbed.Pod
}

func (s story) inhabit(l landscape) {
	seed := rand.Uint64()
	if *theWorld != 0 {
		seed = *theWorld
	}
	w := inhabited{s, newWorld(l, seed, len(s.bed.Nodes), podsOfAWorld), map[*worldPod]*testbed.Pod{}}
	s.Cleanup(func() {
		if s.Failed() {
			s.Logf("to repeat it: go test ./test/e2e -run '%s' -world %d; packets have up to %d bytes; the model for netctl apply:\n%s", s.Name(), seed, w.packet, w.documents())
		}
	})
	w.prepare()
	w.apply("world", w.documents())
	s.afterwards(w.die)
	s.must(w.settle(w.pods))
	w.fares("at first")

	w.rules = append(w.rules, w.newRule(100))
	w.apply("rule", inFile(w.rules[len(w.rules)-1].document()))
	w.fares("after a rule was added")

	moved, gone := w.pods[0], w.pods[1]
	s.must(w.leave(s.ctx, moved, gone))
	w.pods = slices.DeleteFunc(w.pods, func(p *worldPod) bool { return p == gone })
	moved.node = (moved.node + 1) % len(s.bed.Nodes)
	s.must(w.settle([]*worldPod{moved}))
	w.fares("after a pod moved and another one went")

	for _, p := range w.pods {
		w.provide(p, false)
	}
	w.fares("after the last providers went")

	for _, p := range w.pods {
		w.provide(p, w.chance(40))
	}
	w.fares("after there were others")

	for _, n := range s.bed.Nodes {
		s.must(n.Netplugin().Kill())
	}
	w.unattended = true
	w.fares("without agents")
	for _, n := range s.bed.Nodes {
		s.must(n.StartNetplugin())
		s.must(n.WaitReady(s.ctx))
	}
	w.unattended = false
	w.fares("after agents were killed")
}

// prepare sets up the cluster for the landscape.
func (w inhabited) prepare() {
	w.takesOn(w.landscape)
	for _, n := range w.networks {
		if w.encap == "vlan" && w.mode == "bridge" {
			id := uint16(n.tag)
			w.must(w.bed.AddVLAN(w.ctx, id))
			w.afterwards(func(ctx context.Context) error { return w.bed.RemoveVLAN(ctx, id) })
		}
	}
}

// apply makes the objects of documents until the story is over.
func (w inhabited) apply(name, documents string) {
	w.Helper()
	file := filepath.Join(w.TempDir(), name+".yaml")
	w.must(os.WriteFile(file, []byte(documents), 0o644))
	w.netctl("apply", "-q", "-f", file)
	w.afterwards(func(ctx context.Context) error {
		_, err := w.bed.Netctl(ctx, "delete", "-q", "-f", file)
		return err
	})
}

// settle makes pods, all at once.
func (w inhabited) settle(pods []*worldPod) error {
	for _, p := range pods {
		pod := &testbed.Pod{Name: p.name, Node: w.bed.Nodes[p.node], Tenant: p.tenant, Network: p.network, Group: p.group}
		if p.provides {
			pod.Labels = webLabels
		}
		if err := pod.MakeSandbox(w.ctx); err != nil {
			return err
		}
		w.alive[p] = pod
	}
	var g errgroup.Group
	for _, p := range pods {
		g.Go(func() error { return w.begin(p, w.alive[p]) })
	}
	return g.Wait()
}

// begin attaches a pod, learns its addresses and MTU and serves in it.
func (w inhabited) begin(p *worldPod, pod *testbed.Pod) (err error) {
	if err := pod.Attach(w.ctx); err != nil {
		return err
	}
	if p.addresses, err = addressesOf(w.ctx, pod); err != nil {
		return err
	}
	mtu, err := pod.Run(w.ctx, "cat", "/sys/class/net/eth0/mtu")
	if err != nil {
		return err
	}
	if p.mtu, err = strconv.Atoi(strings.TrimSpace(mtu)); err != nil {
		return fmt.Errorf("MTU of %s: %w", p.name, err)
	}
	return pod.Serve(w.ctx, "-name", p.name, "-tcp", tcpPort, "-udp", echoPort, "-sctp", sctpPort)
}

// addressesOf returns the addresses at which others reach a pod.
func addressesOf(ctx context.Context, pod *testbed.Pod) (all []netip.Addr, err error) {
	out, err := pod.Run(ctx, "ip", "-br", "address", "show", "dev", "eth0", "scope", "global")
	if err != nil {
		return nil, err
	}
	for _, field := range strings.Fields(out)[2:] {
		prefix, err := netip.ParsePrefix(field)
		if err != nil {
			return nil, fmt.Errorf("addresses of %s: %q: %w", pod.Name, out, err)
		}
		all = append(all, prefix.Addr())
	}
	return all, nil
}

func (w inhabited) die(ctx context.Context) error {
	var all []*worldPod
	for p := range w.alive {
		all = append(all, p)
	}
	return w.leave(ctx, all...)
}

func (w inhabited) leave(ctx context.Context, pods ...*worldPod) error {
	var g errgroup.Group
	for _, p := range pods {
		pod := w.alive[p]
		delete(w.alive, p)
		g.Go(func() error { return pod.Delete(ctx) })
	}
	return g.Wait()
}

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// storyLimit bounds a story, cleanUpLimit the time until its traces are removed, on a machine that is busy with
// other tests.
const (
	storyLimit   = 3 * time.Minute
	cleanUpLimit = 2 * time.Minute // agents remove unused ports after one
)

// story is one test on a bed that others use after it.
type story struct {
	*testing.T
	ctx context.Context
	bed *testbed.Bed
}

// chapter is a story with its title, a sentence about behaviour.
type chapter struct {
	title string
	play  func(story)
}

// tell plays chapters one after the other on a fresh cluster. All that a chapter made has to be removed after it,
// without a trace; the first that fails is the last, since the next one expects a clean bed.
func tell(t *testing.T, nodes int, chapters ...[]chapter) {
	t.Helper()
	tellOn(t, testbed.Config{Nodes: nodes}, slices.Concat(chapters...))
}

// tellOn is tell on a cluster with a configuration.
func tellOn(t *testing.T, cfg testbed.Config, chapters []chapter) {
	t.Helper()
	_, bed := newBed(t, cfg)
	for _, c := range chapters {
		if !t.Run(c.title, func(t *testing.T) { playOn(t, bed, c.play) }) {
			return
		}
	}
}

func playOn(t *testing.T, bed *testbed.Bed, play func(story)) {
	ctx, cancel := context.WithTimeout(t.Context(), storyLimit)
	defer cancel()
	before, err := bed.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nothingIsLeft(t, bed, before) }) // after all that the story undoes
	play(story{t, ctx, bed})
}

// nothingIsLeft waits until the cluster is as before: agents clean up after the answers.
func nothingIsLeft(t *testing.T, bed *testbed.Bed, before testbed.Snapshot) {
	ctx, cancel := context.WithTimeout(context.Background(), cleanUpLimit)
	defer cancel()
	err := testkit.Poll(ctx, func() error {
		after, err := bed.Snapshot(ctx)
		if err != nil {
			return err
		}
		if left := before.Diff(after); len(left) > 0 {
			return fmt.Errorf("the cluster is not what it was:\n%s", strings.Join(left, "\n"))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// soon fails the story unless the question returns nil in time, and returns how long it took.
func (s story) soon(limit time.Duration, question func() error) time.Duration {
	s.Helper()
	started := time.Now()
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	if err := testkit.Poll(ctx, question); err != nil {
		s.Fatal(err)
	}
	return time.Since(started)
}

// within returns the story with a limit of its own, until the returned function is called.
func (s story) within(limit time.Duration) (story, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	return story{s.T, ctx, s.bed}, cancel
}

// must fails the story with the error, if there is one.
func (s story) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// netctl runs netctl against all netmasters.
func (s story) netctl(args ...string) string {
	s.Helper()
	out, err := s.bed.Netctl(s.ctx, args...)
	s.must(err)
	return out
}

// afterwards undoes something when the story is over, however it ended.
func (s story) afterwards(undo func(ctx context.Context) error) {
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanUpLimit)
		defer cancel()
		if err := undo(ctx); err != nil {
			s.Error(err)
		}
	})
}

// netctlForNow runs a netctl command until the story is over, when the second
// one undoes it.
func (s story) netctlForNow(do, undo string) {
	s.Helper()
	s.netctl(strings.Fields(do)...)
	s.afterwards(func(ctx context.Context) error {
		_, err := s.bed.Netctl(ctx, strings.Fields(undo)...)
		return err
	})
}

func (s story) tenant(name string) {
	s.Helper()
	s.netctlForNow("tenant create "+name, "tenant rm "+name)
}

// network makes a network; its gateway is the last address but one of a /24.
func (s story) network(tenant, name, prefix string) {
	s.Helper()
	subnet := netip.MustParsePrefix(prefix)
	gateway := subnet.Addr().As4()
	gateway[3] = 254
	s.netctlForNow(fmt.Sprintf("network create -t %s -s %s -g %s %s", tenant, prefix, netip.AddrFrom4(gateway), name),
		fmt.Sprintf("network rm -t %s %s", tenant, name))
}

func (s story) group(tenant, network, name string) {
	s.Helper()
	s.netctlForNow(fmt.Sprintf("group create -t %s %s %s", tenant, network, name), fmt.Sprintf("group rm -t %s %s", tenant, name))
}

// sandbox makes the namespace of a pod that is not attached yet; when the story
// is over, both are gone.
func (s story) sandbox(node int, name, tenant, network, group string) *testbed.Pod {
	s.Helper()
	pod := &testbed.Pod{Name: name, Node: s.bed.Nodes[node], Tenant: tenant, Network: network, Group: group}
	s.must(pod.MakeSandbox(s.ctx))
	s.afterwards(pod.Delete)
	return pod
}

// pod attaches a pod that lives as long as the story, and serves in it.
func (s story) pod(node int, name, tenant, network, group string) *testbed.Pod {
	s.Helper()
	pod := s.sandbox(node, name, tenant, network, group)
	s.must(pod.Attach(s.ctx))
	s.serve(pod)
	return pod
}

// serve starts servers in a pod for as long as it lives.
func (s story) serve(pod *testbed.Pod) {
	s.Helper()
	s.must(pod.Serve(s.ctx, "-name", pod.Name, "-tcp", tcpPort, "-udp", echoPort))
}

// Ports that every pod serves.
const (
	tcpPort  = "80"
	echoPort = "7"
)

// ask sends a ping, a connection and a datagram to an address and returns the answers: "pong", and the name of the
// pod that received the latter two.
func ask(ctx context.Context, from *testbed.Pod, address netip.Addr, wait time.Duration) (map[string]string, error) {
	return answersOf(address, wait, func(args ...string) (string, error) {
		return from.Run(ctx, append([]string{from.Probe()}, args...)...)
	})
}

// answersOf is ask for any runner of the probe.
func answersOf(address netip.Addr, wait time.Duration, probe func(args ...string) (string, error)) (map[string]string, error) {
	tcp, udp := net.JoinHostPort(address.String(), tcpPort), net.JoinHostPort(address.String(), echoPort)
	out, err := probe("reach", "-wait", wait.String(), "-ping", address.String(), "-tcp", tcp, "-udp", udp)
	if err != nil {
		return nil, err
	}
	var answers map[string]string
	if err := json.Unmarshal([]byte(out), &answers); err != nil {
		return nil, fmt.Errorf("%s: %w", out, err)
	}
	return map[string]string{"ping": answers[address.String()], "tcp": answers[tcp], "udp": answers[udp]}, nil
}

// reaches returns why one pod does not reach the other.
func reaches(ctx context.Context, from, to *testbed.Pod) error {
	got, err := ask(ctx, from, to.IP, time.Second)
	if err != nil {
		return err
	}
	if got["ping"] != "pong" || got["tcp"] != to.Name || got["udp"] != to.Name {
		return fmt.Errorf("%s asks for %s at %s and gets %v", from.Name, to.Name, to.IP, got)
	}
	return nil
}

// shortly is how long a change may take to be seen on a busy machine; it is no promise. It is less than the time
// from one audit to the next, which would repair what the change itself has missed.
const shortly = 30 * time.Second

// reachEachOther expects that every pod reaches every other within the time.
func (s story) reachEachOther(limit time.Duration, pods ...*testbed.Pod) time.Duration {
	s.Helper()
	return s.soon(limit, func() error {
		for _, from := range pods {
			for _, to := range pods {
				if from == to {
					continue
				}
				if err := reaches(s.ctx, from, to); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// pings expects that a pod, a node or the router gets an answer from an address, the last argument, and returns
// how long it took.
func (s story) pings(from interface {
	Run(context.Context, ...string) (string, error)
}, args ...string) time.Duration {
	s.Helper()
	ping := append([]string{"ping", "-c1", "-W1", "-n", "-q"}, args...)
	return s.soon(shortly, func() error {
		_, err := from.Run(s.ctx, ping...)
		return err
	})
}

// endpoints expects a number of endpoints in the store.
func endpoints(ctx context.Context, bed *testbed.Bed, want int) error {
	keys, err := bed.Keys(ctx, "/contiv.io/state/eps/")
	if err != nil {
		return err
	}
	if n := strings.Count(keys, "\n"); n != want {
		return fmt.Errorf("the store has %d endpoints, want %d:\n%s", n, want, keys)
	}
	return nil
}

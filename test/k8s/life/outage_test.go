package life

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// away is how long the API server is not there.
const away = 60 * time.Second

// undisturbed is how long datagrams are sent before anything happens.
const undisturbed = 3 * time.Second

// linkChange is how many datagrams a new link on a node may cost: Open vSwitch in user space
// reads its routes anew then.
const linkChange = 100

// Two pods on two nodes send each other a datagram per millisecond while what made them is killed and
// comes back.
func TestNothingIsLostWhileKubernetesIsAway(t *testing.T) {
	c, api := up(t, 2)
	for name, n := range map[string]*testbed.Node{"from": c.Nodes[0], "to": c.Nodes[1], "other": c.Nodes[1]} {
		if err := create(t.Context(), api, name, n.Name, 0); err != nil {
			t.Fatal(err)
		}
	}
	soon := func(try func(ctx context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), podLimit)
		defer cancel()
		if err := testkit.Poll(ctx, func() error { return try(ctx) }); err != nil {
			t.Fatal(err)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"from", "to", "other"} {
		soon(func(ctx context.Context) error { return attached(get(ctx, api, name)) })
	}
	to, err := get(t.Context(), api, "to")
	must(err)
	server, err := inPod(t.Context(), c.Nodes[1], "to", "echo", "serve", "-udp", "7000")
	must(err)
	t.Cleanup(func() { _ = server.Kill() })
	soon(func(context.Context) error { return says(c.Nodes[1].LogFile("echo"), "serving") })

	for _, story := range []struct {
		name string
		most int // datagrams that may be lost
		run  func()
	}{
		{"nothing happens", 0, func() { <-time.After(undisturbed) }}, // else the machine has no time for any of this
		{"containerd is killed", 0, func() {
			for _, n := range c.Nodes {
				must(c.Process(n, "containerd").Kill())
				must(c.StartContainerd(t.Context(), n))
			}
		}},
		{"kubelet is killed", 0, func() {
			for _, n := range c.Nodes {
				must(c.Process(n, "kubelet").Kill())
				must(c.StartKubelet(n))
				soon(func(ctx context.Context) error {
					_, err := n.Run(ctx, n.Tool("probe"), "http", "http://127.0.0.1:10248/healthz")
					return err
				})
			}
		}},
		{"netplugin is killed", 0, func() {
			for _, n := range c.Nodes {
				must(n.Netplugin().Kill())
				must(n.StartNetplugin())
				must(n.WaitReady(t.Context()))
			}
		}},
		{"the leading netmaster is killed", 0, func() {
			leader, err := c.Leader(t.Context())
			must(err)
			must(leader.Netmaster().Kill())
			must(leader.StartNetmaster())
			soon(func(ctx context.Context) error { _, err := c.Leader(ctx); return err })
		}},
		{"the API server is away, and a pod gets another sandbox meanwhile", linkChange, func() {
			must(c.Process(c.Nodes[0], "kube-apiserver").Kill())
			began := time.Now()
			before, err := sandbox(t.Context(), c.Nodes[1], "other")
			must(err)
			killPod(t.Context(), c.Nodes[1], "other")
			soon(func(ctx context.Context) error {
				now, err := sandbox(ctx, c.Nodes[1], "other")
				if err == nil && (now.ContainerID == before.ContainerID || now.State != "ready") {
					err = fmt.Errorf("pod other has no new sandbox yet: %+v", now)
				}
				return err
			})
			<-time.After(time.Until(began.Add(away)))
			must(c.StartAPIServer(t.Context()))
			soon(func(ctx context.Context) error { return attached(get(ctx, api, "other")) })
		}},
	} {
		stream, err := inPod(t.Context(), c.Nodes[0], "from", "stream", "stream", "-to", to.Status.PodIP+":7000", "-count", "600000")
		must(err)
		soon(func(context.Context) error { return says(c.Nodes[0].LogFile("stream"), "sending") })
		story.run()
		_ = stream.Terminate() // fails if any is lost, which the report tells
		var report struct{ Sent, Lost, Late int }
		data, err := os.ReadFile(c.Nodes[0].LogFile("stream"))
		must(err)
		_, text, _ := strings.Cut(string(data), "{")
		must(json.NewDecoder(strings.NewReader("{" + text)).Decode(&report)) // what follows says how many are lost
		t.Logf("%s: %d datagrams sent, %d lost, %d not sent in time", story.name, report.Sent, report.Lost, report.Late)
		if report.Lost > story.most || report.Sent == 0 {
			t.Errorf("%s: of %d datagrams %d were lost", story.name, report.Sent, report.Lost)
		}
		must(os.Remove(c.Nodes[0].LogFile("stream")))
	}
}

// checkpoint is what an agent notes of a pod's interface.
type checkpoint struct{ ContainerID, State, Netns, PodName, Since string }

// sandbox is the newest checkpoint of a pod on a node.
func sandbox(ctx context.Context, n *testbed.Node, pod string) (newest checkpoint, err error) {
	out, err := n.Run(ctx, "sh", "-c", "cat /var/lib/contiv/cni/*.json")
	if err != nil {
		return newest, err
	}
	decoder := json.NewDecoder(strings.NewReader(out))
	for decoder.More() {
		var c checkpoint
		if err := decoder.Decode(&c); err != nil {
			return newest, err
		}
		if c.PodName == pod && c.Since > newest.Since {
			newest = c
		}
	}
	if newest.PodName == "" {
		err = errors.New("no checkpoint of pod " + pod + " on " + n.Name)
	}
	return newest, err
}

// inPod starts the probe in the network of a pod.
func inPod(ctx context.Context, n *testbed.Node, pod, log string, args ...string) (*testbed.Process, error) {
	at, err := sandbox(ctx, n, pod)
	if err != nil {
		return nil, err
	}
	return n.Start(log, append([]string{"nsenter", "--net=" + at.Netns, n.Tool("probe")}, args...)...)
}

// says tells whether a log has a word yet.
func says(log, word string) error {
	data, err := os.ReadFile(log)
	if err == nil && !strings.Contains(string(data), word) {
		err = fmt.Errorf("%s does not say %q: %q", log, word, data)
	}
	return err
}

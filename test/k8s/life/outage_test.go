package life

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// away is how long the API server is not there.
const away = 60 * time.Second

// undisturbed is how long datagrams are sent before anything happens.
const undisturbed = 3 * time.Second

// othersAtOnce are pods that come and go beside those that are looked at.
const othersAtOnce = 4

// A pod sends a datagram per millisecond to a pod on another node, and one to a service with that pod behind it,
// while the components that made them are killed and restarted, and other pods are added and deleted.
func TestNothingIsLostWhileKubernetesIsAway(t *testing.T) {
	c, api := up(t, 2)
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
	from, err := c.StartPod(t.Context(), "from", c.Nodes[0])
	must(err)
	to, err := c.StartPod(t.Context(), "to", c.Nodes[1])
	must(err)
	must(to.Echo())
	must(create(t.Context(), api, "other", c.Nodes[1].Name, 0))
	soon(func(ctx context.Context) error { return attached(get(ctx, api, "other")) })
	var service struct{ Spec struct{ ClusterIP string } }
	must(api.Do(t.Context(), http.MethodPost, "/api/v1/namespaces/default/services", object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "to"},
		"spec": object{"selector": object{"run": "to"}, "ports": []object{{"port": cluster.EchoPort, "protocol": "UDP"}}}}, &service))
	soon(func(ctx context.Context) error {
		s, err := from.During(ctx, service.Spec.ClusterIP, func() error { <-time.After(undisturbed / 10); return nil })
		if err == nil && (s.Sent == 0 || s.Lost > 0) {
			err = fmt.Errorf("the service answers %d of %d datagrams", s.Sent-s.Lost, s.Sent)
		}
		return err
	})

	passing := func() {
		for i := range othersAtOnce {
			must(create(t.Context(), api, fmt.Sprint("passing-", i), c.Nodes[i%2].Name, 0))
		}
		for i := range othersAtOnce {
			soon(func(ctx context.Context) error { return attached(get(ctx, api, fmt.Sprint("passing-", i))) })
		}
		for i := range othersAtOnce {
			must(remove(t.Context(), api, fmt.Sprint("passing-", i), true))
		}
	}

	for _, story := range []struct {
		name string
		run  func()
	}{
		{"nothing happens", func() { <-time.After(undisturbed) }}, // else the machine has no time for any of this
		{"containerd is killed", func() {
			for _, n := range c.Nodes {
				must(c.Process(n, "containerd").Kill())
				must(c.StartContainerd(t.Context(), n))
			}
		}},
		{"kubelet is killed", func() {
			for _, n := range c.Nodes {
				must(c.Process(n, "kubelet").Kill())
				must(c.StartKubelet(n))
				soon(func(ctx context.Context) error {
					_, err := n.Run(ctx, n.Tool("probe"), "http", "http://127.0.0.1:10248/healthz")
					return err
				})
			}
		}},
		{"netplugin is killed", func() {
			for _, n := range c.Nodes {
				must(n.Netplugin().Kill())
				must(n.StartNetplugin())
				must(n.WaitReady(t.Context()))
			}
		}},
		{"the leading netmaster is killed", func() {
			leader, err := c.Leader(t.Context())
			must(err)
			must(leader.Netmaster().Kill())
			must(leader.StartNetmaster())
			soon(func(ctx context.Context) error { _, err := c.Leader(ctx); return err })
		}},
		{"the API server stands still most of the time, while other pods come and go", func() {
			ends := stutters(c.Process(c.Nodes[0], "kube-apiserver"))
			passing()
			must(ends())
		}},
		{"a port of the service gets other names", func() { renamed(t, c, from, service.Spec.ClusterIP) }},
		{"other pods come and go", passing},
		{"the API server is away, and a pod gets another sandbox meanwhile", func() {
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
		var streams [2]cluster.Stream
		streams[0], err = from.During(t.Context(), to.IP, func() (err error) {
			streams[1], err = from.During(t.Context(), service.Spec.ClusterIP, func() error { story.run(); return nil })
			return err
		})
		must(err)
		for i, where := range []string{"to a pod", "to a service"} {
			s := streams[i]
			t.Logf("%s, %s: %d datagrams sent, %d lost, %d not sent in time", story.name, where, s.Sent, s.Lost, s.Late)
			if s.Lost > 0 || s.Sent == 0 {
				t.Errorf("%s, %s: of %d datagrams %d were lost: %+v", story.name, where, s.Sent, s.Lost, s.Losses)
			}
		}
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

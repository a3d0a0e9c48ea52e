package life

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/k8s/clustertest"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// up is a cluster of real parts for one story.
func up(t *testing.T, nodes int) (*cluster.Cluster, *cluster.API) {
	t.Helper()
	c := clustertest.Up(t, cluster.Config{Nodes: nodes, First: true}, false)
	return c, clustertest.API(t, c)
}

// Times of the stories, on a machine that has other work, too.
const (
	podLimit   = 4 * time.Minute // for a pod to get its address
	emptyLimit = 4 * time.Minute // for everything to be gone
)

// atOnce is how many pods come or go at a time.
const atOnce = 50

func TestPodsThatComeAndGoLeaveNothing(t *testing.T) { churn(t, 100) }

func TestLongPodsThatComeAndGoLeaveNothing(t *testing.T) {
	testkit.TakesLong(t)
	churn(t, 1000)
}

// churn makes, kills and deletes pods at random, many at a time, and kills containerd and netplugin
// among them. No two pods have one address, and nothing is left of them.
func churn(t *testing.T, total int) {
	c, api := up(t, 3)
	settling, cancel := context.WithTimeout(t.Context(), podLimit)
	defer cancel()
	// The cluster's own pods would get other sandboxes, and so addresses, when containerd is killed.
	if _, err := c.Kubectl(settling, "--namespace", "kube-system", "scale", "deployment", "coredns", "--replicas=0"); err != nil {
		t.Fatal(err)
	}
	before, err := rested(settling, c, func() error { return settled(settling, c, api) })
	if err != nil {
		t.Fatal(err)
	}
	began, seed := time.Now(), rand.Uint64()
	t.Logf("seed %d", seed)
	ctx, stop := context.WithCancel(t.Context())
	var watching, working sync.WaitGroup
	watching.Go(func() { noTwoHaveOneAddress(ctx, t, api) })
	watching.Go(func() { killDaemons(ctx, t, c, rand.New(rand.NewPCG(seed, 1<<32))) })
	talks := &talks{addresses: map[string]bool{}}
	defer talks.close()
	var next atomic.Int64
	for worker := range atOnce {
		working.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(worker)))
			for n := next.Add(1); n <= int64(total) && !t.Failed(); n = next.Add(1) {
				if err := cycle(ctx, c, api, talks, random, int(n)); err != nil {
					t.Errorf("pod %d: %v", n, err)
				}
			}
		})
	}
	working.Wait()
	stop()
	watching.Wait()
	if t.Failed() {
		return
	}
	t.Logf("%d pods in %.0f s, %d connections with them tried, %d open, %d of which were tracked",
		total, time.Since(began).Seconds(), talks.tried, len(talks.open), talks.tracked)
	if err := talks.enough(); err != nil {
		t.Error(err)
	}
	emptied, cancelled := context.WithTimeout(t.Context(), emptyLimit)
	defer cancelled()
	if err := testkit.Poll(emptied, func() error {
		pods, err := list(emptied, api, "default")
		if err == nil && len(pods) > 0 {
			err = fmt.Errorf("%d pods are there still, such as %s", len(pods), pods[0].Metadata.Name)
		}
		if err != nil {
			return err
		}
		after, err := c.Snapshot(emptied)
		if err != nil {
			return err
		}
		left, err := withoutForgotten(emptied, c, withoutCounters(before.Diff(after)))
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("%d lines differ:\n%s", len(left), strings.Join(left[:min(len(left), 40)], "\n"))
		}
		if err := talks.left(emptied, c); err != nil {
			return err
		}
		return nothingOpen(emptied, c)
	}); err != nil {
		t.Error(err)
	}
}

// withoutCounters removes the counters of the last addresses of networks from a diff. They exist as long as the
// network.
func withoutCounters(lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool {
		what, key, _ := strings.Cut(line, ": /")
		return strings.HasPrefix(what, "keys below oper: ") && strings.HasPrefix("/"+key, mastercfg.IPv4CounterPrefix)
	})
}

// emptyNamespaces lists the network namespaces of containers in which nothing is but loopback.
const emptyNamespaces = `for f in /run/netns/cni-*; do
  [ ! -e "$f" ] || [ "$(nsenter --net="$f" ip -oneline link | wc -l)" -gt 1 ] || basename "$f"
done`

// withoutForgotten leaves out of what differs the namespaces that containerd has forgotten: one that is killed between
// making one and noting its sandbox never removes it. Those that a pod's interface is in are not left out.
func withoutForgotten(ctx context.Context, c *cluster.Cluster, lines []string) ([]string, error) {
	for _, n := range c.Nodes {
		out, err := n.Run(ctx, "sh", "-ec", emptyNamespaces)
		if err != nil {
			return nil, err
		}
		for name := range strings.FieldsSeq(out) {
			lines = slices.DeleteFunc(lines, func(line string) bool { return line == "namespaces of "+n.Name+": new: "+name })
		}
	}
	return lines, nil
}

// restTime is for how long nothing changes in a cluster that rests: agents write a summary every five seconds at
// most, and end the connections of pods that went within two.
const restTime = 10 * time.Second

// rested returns a snapshot of the cluster once it is settled, and has not changed for a while.
func rested(ctx context.Context, c *cluster.Cluster, settled func() error) (all testbed.Snapshot, err error) {
	since := time.Now()
	err = testkit.Poll(ctx, func() error {
		if err := settled(); err != nil {
			return err
		}
		now, err := c.Snapshot(ctx)
		if err != nil {
			return err
		}
		if changed := all.Diff(now); len(changed) > 0 {
			all, since = now, time.Now()
			return fmt.Errorf("the cluster changes still: %s", changed[0])
		}
		if rests := time.Since(since); rests < restTime {
			return fmt.Errorf("nothing has changed for %s only", rests)
		}
		return nil
	})
	return all, err
}

// settled returns an error while a cluster has pods or backends of its own, or while not all nodes have reported
// their own endpoint.
func settled(ctx context.Context, c *cluster.Cluster, api *cluster.API) error {
	pods, err := list(ctx, api, "")
	if err == nil && len(pods) > 0 {
		err = fmt.Errorf("%d pods are there still", len(pods))
	}
	if err != nil {
		return err
	}
	backends, err := c.Keys(ctx, mastercfg.K8sBackendPrefix+"default/kube-system/")
	if err == nil && strings.TrimSpace(backends) != "" {
		err = fmt.Errorf("services have backends still: %s", backends)
	}
	if err != nil {
		return err
	}
	var have [2]int
	for i, root := range []string{"state", "oper"} {
		keys, err := c.Keys(ctx, "/contiv.io/"+root+"/eps/")
		if err != nil {
			return err
		}
		have[i] = strings.Count(keys, "/eps/")
	}
	if nodes := len(c.Nodes); have != [2]int{nodes, nodes} {
		return fmt.Errorf("%d endpoints, %d of them reported, want those of %d nodes", have[0], have[1], nodes)
	}
	return nil
}

// cycle is the life of one pod.
func cycle(ctx context.Context, c *cluster.Cluster, api *cluster.API, talks *talks, random *rand.Rand, number int) error {
	at := random.IntN(len(c.Nodes))
	name, node, other := fmt.Sprintf("churn-%d", number), c.Nodes[at], c.Nodes[(at+1)%len(c.Nodes)]
	hostPort := 0
	if random.IntN(4) == 0 {
		hostPort = 20000 + number
	}
	if err := create(ctx, api, name, node.Name, hostPort); err != nil {
		return err
	}
	if random.IntN(10) > 0 { // else it is deleted while it starts
		waiting, cancel := context.WithTimeout(ctx, podLimit)
		defer cancel()
		var p pod
		if err := testkit.Poll(waiting, func() (err error) {
			p, err = get(waiting, api, name)
			return attached(p, err)
		}); err != nil {
			return err
		}
		if random.IntN(4) == 0 {
			talks.begin(ctx, other, node, p.Status.PodIP)
		}
		if random.IntN(5) == 0 {
			killPod(ctx, node, name)
		}
	}
	return remove(ctx, api, name, random.IntN(3) == 0)
}

// killPod kills all processes of a pod, if containerd lists them, and lets kubelet find out.
func killPod(ctx context.Context, n *testbed.Node, name string) {
	ids, err := n.Run(ctx, "ctr", "--namespace", "k8s.io", "containers", "list", "--quiet", `labels."io.kubernetes.pod.name"==`+name)
	if err != nil {
		return // containerd is away
	}
	for id := range strings.FieldsSeq(ids) {
		_, _ = n.Run(ctx, "ctr", "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", id) // which may be gone
	}
}

// killDaemons kills what pods are made by, now here and now there.
func killDaemons(ctx context.Context, t *testing.T, c *cluster.Cluster, random *rand.Rand) {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for round := 0; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		n := c.Nodes[random.IntN(len(c.Nodes))]
		var err error
		if round%2 == 0 {
			if err = c.Process(n, "containerd").Kill(); err == nil {
				err = c.StartContainerd(t.Context(), n)
			}
		} else {
			if err = n.Netplugin().Kill(); err == nil {
				err = n.StartNetplugin()
			}
		}
		if err != nil {
			t.Errorf("%s: %v", n.Name, err)
			return
		}
	}
}

// noTwoHaveOneAddress watches the pods that are not being deleted. A list that fails is repeated soon.
func noTwoHaveOneAddress(ctx context.Context, t *testing.T, api *cluster.API) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	lists, failed := 0, 0
	for {
		select {
		case <-ctx.Done():
			if lists == 0 || failed > lists {
				t.Errorf("%d lists of pods, %d have failed: nobody has seen which addresses they have", lists+failed, failed)
			}
			return
		case <-tick.C:
		}
		pods, err := list(ctx, api, "default")
		if err != nil {
			failed++
			continue
		}
		lists++
		holders := map[string]string{}
		for _, p := range pods {
			if p.Status.PodIP == "" || p.Metadata.DeletionTimestamp != nil {
				continue
			}
			if other := holders[p.Status.PodIP]; other != "" {
				t.Errorf("%s and %s have address %s", other, p.Metadata.Name, p.Status.PodIP)
			}
			holders[p.Status.PodIP] = p.Metadata.Name
		}
	}
}

// nothingOpen returns an error if host ports lead to pods that are gone.
func nothingOpen(ctx context.Context, c *cluster.Cluster) error {
	for _, n := range c.Nodes {
		out, err := n.Run(ctx, "sh", "-c", "nft list table inet contiv | grep -c 'udp . 2[01]' || true")
		if err != nil {
			return err
		}
		if strings.TrimSpace(out) != "0" {
			return fmt.Errorf("%s: %s lines of host ports are left", n.Name, strings.TrimSpace(out))
		}
	}
	return nil
}

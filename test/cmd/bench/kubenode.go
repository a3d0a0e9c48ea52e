package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/kubeapi"
	"github.com/contiv/netplugin/test/scenario"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

const (
	nodePods     = 200
	nodeSpaces   = 10 // namespaces of these pods, each with appsIn apps
	nodePolicies = 1000
	nodeServices = 1000
	behindEach   = 5 // pods behind a service
	nodeChanges  = 100
	nodeColds    = 3 // times that all come at once; the median counts

	policyChangeGoal  = 100 * time.Millisecond
	policiesColdGoal  = 2 * time.Second
	serviceChangeGoal = 30 * time.Millisecond
	servicesColdGoal  = 3 * time.Second
)

// benchKubeNode has a node with 200 pods of Kubernetes, which the leader follows at a simulated API
// server. All is measured from the API server's change to the switch: the fate of a datagram per
// millisecond, or all flows there. What is at once is there once before, so that it is known how many
// flows it has; the reference is the time until the state has it. At last the agent starts with an empty switch.
func benchKubeNode(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	figures, err := insideLeader("kubenode")(ctx, bed)
	if err != nil {
		return nil, err
	}
	n := bed.Nodes[0]
	tracked, err := compareTracked(ctx, n)
	if err != nil {
		return nil, err
	}
	cold, err := coldAgent(ctx, n)
	return append(figures, tracked, cold), err
}

// compareTracked compares iperf3 between pods, whose connections are tracked, with that on a bare bridge.
func compareTracked(ctx context.Context, n *testbed.Node) (figure, error) {
	var ends []netnsRunner
	for _, name := range []string{"free-0", "free-1"} {
		out, err := n.Run(ctx, "ip", "netns", "exec", name, "sh", "-c", "ip -o -4 address show dev eth0 | grep -o 'inet [0-9.]*' | cut -c6-; cat /sys/class/net/eth0/mtu")
		if err != nil {
			return figure{}, err
		}
		ends = append(ends, netnsRunner{n, name, strings.Fields(out)[0]})
		if name == "free-0" {
			if _, err := n.Run(ctx, "sh", "-ec", bareScript, "sh", "198.51.100.2", strings.Fields(out)[1]); err != nil {
				return figure{}, err
			}
		}
	}
	for i, ns := range []string{"bare1", "bare2"} {
		address := fmt.Sprintf("10.98.0.%d", 1+i)
		if _, err := n.Run(ctx, "ip", "-n", ns, "addr", "add", address+"/24", "dev", "eth0"); err != nil {
			return figure{}, err
		}
		ends = append(ends, netnsRunner{n, ns, address})
	}
	return compareTCP(ctx, "TCP between pods that are tracked, same node", "bare bridge", 0.9, ends[0], ends[1], ends[2], ends[3])
}

// coldAgent starts the agent with a switch that has lost its flows.
func coldAgent(ctx context.Context, n *testbed.Node) (figure, error) {
	count := func() (int, error) {
		out, err := n.Run(ctx, flowsCommand...)
		if err != nil {
			return 0, err
		}
		return flowsIn(out)
	}
	all, err := count()
	if err != nil {
		return figure{}, err
	}
	if err := n.Netplugin().Terminate(); err != nil {
		return figure{}, err
	}
	if _, err := n.Run(ctx, "ovs-ofctl", "-O", "OpenFlow13", "del-flows", ovsd.DefaultBridge); err != nil {
		return figure{}, err
	}
	began := time.Now()
	if err := n.StartNetplugin(); err != nil {
		return figure{}, err
	}
	err = testkit.Until(ctx, fmt.Sprintf("%d flows", all), func() bool {
		now, err := count()
		return err == nil && now >= all
	})
	took := time.Since(began)
	return figure{
		Name:  fmt.Sprintf("the agent's start with all of these, %d flows", all),
		Value: inMS(took), Reference: "none", Ratio: "-", Goal: "at most " + inMS(servicesColdGoal), Met: took <= servicesColdGoal,
	}, err
}

// flowsCommand is the command that counts the flows of a node.
var flowsCommand = []string{"ovs-ofctl", "-O", "OpenFlow13", "dump-aggregate", ovsd.DefaultBridge}

func flowsIn(aggregate string) (n int, err error) {
	_, rest, _ := strings.Cut(aggregate, "flow_count=")
	if _, err = fmt.Sscan(rest, &n); err != nil {
		err = fmt.Errorf("%q: %w", aggregate, err)
	}
	return n, err
}

// kubeBed is what measureKubeNode works with, on the node itself.
type kubeBed struct {
	*site
	api  *kubeapi.Server
	pods []*corev1.Pod
}

// measureKubeNode is the API server of benchKubeNode.
func measureKubeNode(ctx context.Context, s *site) ([]figure, error) {
	api, stop, err := serveKube()
	if err != nil {
		return nil, err
	}
	defer stop()
	b := &kubeBed{site: s, api: api}
	if err := b.addPods(ctx); err != nil {
		return nil, err
	}
	policies, err := b.policies(ctx)
	if err != nil {
		return nil, fmt.Errorf("policies: %w", err)
	}
	services, err := b.services(ctx)
	if err != nil {
		return nil, fmt.Errorf("services: %w", err)
	}
	return append(policies, services...), nil
}

// addPods attaches all pods, and two that no policy is about. The first serves as an echo.
func (b *kubeBed) addPods(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	objects := []kubeapi.Object{kubeRange("10.96.0.0/16"), kubeNode(host, "192.0.2.1"), kubeNamespace("free")}
	for i := range nodeSpaces {
		objects = append(objects, kubeNamespace(nodeSpace(i)))
	}
	var all []*corev1.Pod
	for i := range nodePods {
		space, app := i%nodeSpaces, i/nodeSpaces%appsIn
		all = append(all, kubePod(nodeSpace(space), fmt.Sprintf("%s-%s-%d", nodeSpace(space), appName(app), i/nodeSpaces/appsIn), host, "", map[string]string{"app": appName(app)}))
	}
	b.pods = all
	all = append(slices.Clone(all), kubePod("free", "free-0", host, "", nil), kubePod("free", "free-1", host, "", nil))
	for _, p := range all {
		objects = append(objects, p)
	}
	if err := b.api.Put(objects...); err != nil {
		return err
	}
	_, err = spread(ctx, 4, len(all), func(ctx context.Context, i int) error { return b.attach(ctx, all[i]) })
	return err
}

func nodeSpace(i int) string { return fmt.Sprintf("space%d", i) }

// attach gives a pod its interface, as a runtime of containers does.
func (b *kubeBed) attach(ctx context.Context, p *corev1.Pod) error {
	if _, err := command(ctx, "ip", "netns", "add", p.Name); err != nil {
		return err
	}
	if _, err := command(ctx, "ip", "-n", p.Name, "link", "set", "lo", "up"); err != nil { // servers look there which versions of IP there are
		return err
	}
	args := fmt.Sprintf("CNI_ARGS=K8S_POD_NAMESPACE=%s;K8S_POD_NAME=%s;K8S_POD_UID=%s", p.Namespace, p.Name, p.UID)
	out, err := command(ctx, "env", "NETCONFPATH=/etc/cni/net.d", "CNI_PATH="+filepath.Dir(tool("cnitool")), args, tool("cnitool"), "add", "contiv-net", "/run/netns/"+p.Name)
	if err != nil {
		return err
	}
	var result struct {
		IPs []struct {
			Address netip.Prefix `json:"address"`
		} `json:"ips"`
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil || len(result.IPs) == 0 {
		return fmt.Errorf("pod %s: result of ADD %q: %w", p.Name, out, err)
	}
	p.Status.PodIP = result.IPs[0].Address.Addr().String()
	p.Status.PodIPs = []corev1.PodIP{{IP: p.Status.PodIP}}
	return b.api.Put(p)
}

// tool is the path of one of the programs beside this one.
func tool(name string) string {
	own, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(own), name)
}

// command runs one and returns its output.
func command(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s", err, failed.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("%q: %w", args, err)
	}
	return string(out), nil
}

// policies measures 1,000 policies at once, and beside them one that changes.
func (b *kubeBed) policies(ctx context.Context) ([]figure, error) {
	var all []kubeapi.Object
	for i := range nodePolicies {
		space, app := i%nodeSpaces, i/nodeSpaces%appsIn
		all = append(all, kubePolicy(nodeSpace(space), fmt.Sprintf("p%d", i), appName(app), []string{appName((app + 1) % appsIn)}, nodeSpace((space+1)%nodeSpaces), 1000+i))
	}
	cold, err := b.atOnce(ctx, all, mastercfg.K8sPolicyPrefix, nodePolicies)
	if err != nil {
		return nil, err
	}
	cold.Name = fmt.Sprintf("%d policies at once, %d pods, until the switch has them", nodePolicies, nodePods)
	cold.Goal, cold.Met = "at most "+inMS(policiesColdGoal), cold.took <= policiesColdGoal

	server, client := b.pods[0], b.pods[nodeSpaces] // apps 0 and 1 of one namespace
	protocol := corev1.ProtocolUDP
	policy := kubePolicy(server.Namespace, "changing", server.Labels["app"], []string{client.Labels["app"]}, "nowhere", echoPort)
	policy.Spec.Ingress[0].Ports[0].Protocol = &protocol
	closed := policy.DeepCopy()
	closed.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{}
	took, err := b.toggle(ctx, server, client, server.Status.PodIP, closed, policy)
	if err != nil {
		return nil, err
	}
	p99 := scenario.Percentile(took, 99)
	return []figure{cold.figure, {
		Name:  fmt.Sprintf("policy change to enforcement p99, %d policies, %d pods", nodePolicies, nodePods),
		Value: inMS(p99) + " (p50 " + inMS(scenario.Percentile(took, 50)) + ")", Reference: "none", Ratio: "-",
		Goal: "at most " + inMS(policyChangeGoal), Met: p99 <= policyChangeGoal,
	}}, nil
}

// services measures 1,000 services at once, and beside them one whose only pod comes and goes.
func (b *kubeBed) services(ctx context.Context) ([]figure, error) {
	var all []kubeapi.Object
	for i := range nodeServices {
		service := kubeService(nodeSpace(i%nodeSpaces), fmt.Sprintf("s%d", i), addressIn("10.96.%d.%d", 256+i), 80)
		var behind []*corev1.Pod
		for k := range behindEach {
			behind = append(behind, b.pods[(i%nodeSpaces+(i/nodeSpaces+k)*nodeSpaces)%nodePods])
		}
		all = append(all, service, kubeSlice(service, 8080, behind...))
	}
	cold, err := b.atOnce(ctx, all, mastercfg.K8sBackendPrefix, nodeServices*behindEach)
	if err != nil {
		return nil, err
	}
	cold.Name = fmt.Sprintf("%d services with %d pods behind them at once, until the switch has them", nodeServices, nodeServices*behindEach)
	cold.Goal, cold.Met = "at most "+inMS(servicesColdGoal), cold.took <= servicesColdGoal

	server, client := b.pods[0], b.pods[nodeSpaces]
	service := kubeService(server.Namespace, "changing", "10.96.250.1", echoPort)
	service.Spec.Ports[0].Protocol = corev1.ProtocolUDP
	if err := b.api.Put(service); err != nil {
		return nil, err
	}
	with, without := kubeSlice(service, echoPort, server), kubeSlice(service, echoPort)
	with.Ports[0].Protocol, without.Ports[0].Protocol = &service.Spec.Ports[0].Protocol, &service.Spec.Ports[0].Protocol
	took, err := b.toggle(ctx, server, client, service.Spec.ClusterIP, without, with)
	if err != nil {
		return nil, err
	}
	p99 := scenario.Percentile(took, 99)
	return []figure{cold.figure, {
		Name:  fmt.Sprintf("pod of a service changed until its clients see it, p99, %d services", nodeServices),
		Value: inMS(p99) + " (p50 " + inMS(scenario.Percentile(took, 50)) + ")", Reference: "none", Ratio: "-",
		Goal: "at most " + inMS(serviceChangeGoal), Met: p99 <= serviceChangeGoal,
	}}, nil
}

// echoPort is where the first pod answers.
const echoPort = 7

// toggle puts one of two objects after the other, and tells how long it takes until a client has no
// answers of the server, or some again.
func (b *kubeBed) toggle(ctx context.Context, server, client *corev1.Pod, address string, closed, open kubeapi.Object) (took []time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	echo := exec.CommandContext(ctx, "ip", "netns", "exec", server.Name, tool("probe"), "serve", "-udp", fmt.Sprint(echoPort))
	if err := echo.Start(); err != nil {
		return nil, err
	}
	defer func() {
		cancel()
		_ = echo.Wait() // it ends by the signal
	}()
	if err := b.api.Put(open); err != nil {
		return nil, err
	}
	w, err := scenario.StartWatchBy(ctx, client.Name, func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, "ip", "netns", "exec", client.Name, tool("probe"), "watch", "-to", fmt.Sprintf("%s:%d", address, echoPort), "-for", "5m")
	})
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	if _, err := w.Await(ctx, true); err != nil {
		return nil, err
	}
	for i := range nodeChanges {
		object, answered := closed, false
		if i%2 == 1 {
			object, answered = open, true
		}
		began := time.Now()
		if err := b.api.Put(object); err != nil {
			return nil, err
		}
		at, err := w.Await(ctx, answered)
		if err != nil {
			return nil, err
		}
		took = append(took, max(0, at.Sub(began)))
	}
	return took, nil
}

// timedFigure is a figure with the time that it is about.
type timedFigure struct {
	figure
	took time.Duration
}

// settled is how long the count of flows stays as it is when all are there, or gone.
const settled = 3 * time.Second

// atOnce puts objects all at once, again and again, and tells how long it takes until the switch has all
// flows for them. keys is how many there are in the state then.
func (b *kubeBed) atOnce(ctx context.Context, objects []kubeapi.Object, prefix string, keys int) (f timedFigure, err error) {
	known, stop := b.count(ctx, prefix)
	defer stop()
	var all int
	var took, written []time.Duration
	for i := range 1 + nodeColds {
		began := time.Now()
		if err := b.api.Put(objects...); err != nil {
			return f, err
		}
		if err := testkit.Until(ctx, "the state has all", func() bool { return known() >= keys }); err != nil {
			return f, err
		}
		state := time.Since(began)
		if i == 0 {
			if all, err = b.settle(ctx); err != nil {
				return f, err
			}
		} else {
			if err := testkit.Until(ctx, fmt.Sprintf("%d flows", all), func() bool {
				now, inSync, err := b.flows(ctx)
				return err == nil && inSync && now >= all
			}); err != nil {
				return f, err
			}
			took, written = append(took, time.Since(began)), append(written, state)
		}
		if i == nodeColds {
			break
		}
		if err := b.api.Delete(objects...); err != nil {
			return f, err
		}
		if err := testkit.Until(ctx, "the state has none", func() bool { return known() == 0 }); err != nil {
			return f, err
		}
		if _, err := b.settle(ctx); err != nil {
			return f, err
		}
	}
	f.took = median(took)
	f.Value, f.Reference = fmt.Sprintf("%s (%d flows)", inMS(f.took), all), "until the state has them "+inMS(median(written))
	f.Ratio = fmt.Sprintf("%.1f", float64(f.took)/float64(median(written)))
	return f, nil
}

// count follows how many keys of a prefix there are.
func (b *kubeBed) count(ctx context.Context, prefix string) (known func() int, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var n atomic.Int64
	keys := map[string]struct{}{}
	m := mirror.New(b.db, prefix, func(batch mirror.Batch) {
		for _, e := range batch.Events {
			if keys[e.Key] = struct{}{}; e.Value == nil {
				delete(keys, e.Key)
			}
		}
		n.Store(int64(len(keys)))
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = m.Run(ctx) // ends with the context's error
	}()
	return func() int { return int(n.Load()) }, func() {
		cancel()
		<-ended
	}
}

// flows counts those of the switch; inSync tells whether it has all that the agent knows.
func (b *kubeBed) flows(ctx context.Context) (n int, inSync bool, err error) {
	metrics, err := get(ctx, b.http, "http://127.0.0.1:9090/metrics")
	if err != nil {
		return 0, false, err
	}
	out, err := command(ctx, flowsCommand...)
	if err != nil {
		return 0, false, err
	}
	n, err = flowsIn(out)
	return n, strings.Contains(metrics, "contiv_switch_in_sync 1"), err
}

// settle waits until the switch has all, and the count of flows does not change any more.
func (b *kubeBed) settle(ctx context.Context) (flows int, err error) {
	since := time.Now()
	err = testkit.Until(ctx, "the count of flows stays", func() bool {
		now, inSync, err := b.flows(ctx)
		if err != nil || !inSync || now != flows {
			flows, since = now, time.Now()
		}
		return time.Since(since) > settled
	})
	return flows, err
}

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
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/kubeapi"
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
	nodeColds    = 3 // number of times that all are added at once; the median counts

	policyChangeGoal  = 100 * time.Millisecond
	policiesColdGoal  = 2 * time.Second
	serviceChangeGoal = 30 * time.Millisecond
	servicesColdGoal  = 3 * time.Second
)

// benchKubeNode measures a node with 200 pods of Kubernetes, which the leader watches at a simulated API server.
// All times are from the change at the API server to the switch: the fate of a datagram per millisecond, or the
// presence of all flows. Objects that are added at once are added once before, to learn the number of their flows;
// the reference is the time until the state has them. Finally the agent is started with an empty switch.
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

// compareTracked compares iperf3 between pods, whose connections are tracked, with iperf3 over a bare bridge.
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

// coldAgent measures the start of the agent with a switch that has lost its flows.
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

// flowsCommand counts the flows of a node.
var flowsCommand = []string{"ovs-ofctl", "-O", "OpenFlow13", "dump-aggregate", ovsd.DefaultBridge}

func flowsIn(aggregate string) (n int, err error) {
	_, rest, _ := strings.Cut(aggregate, "flow_count=")
	if _, err = fmt.Sscan(rest, &n); err != nil {
		err = fmt.Errorf("%q: %w", aggregate, err)
	}
	return n, err
}

// kubeBed is the environment of measureKubeNode, on the node itself.
type kubeBed struct {
	*site
	api  *kubeapi.Server
	pods []*corev1.Pod
}

// measureKubeNode runs the API server of benchKubeNode, and measures.
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

// addPods attaches all pods, and two without policies. The first serves as an echo server.
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

// attach attaches a pod, as a container runtime does.
func (b *kubeBed) attach(ctx context.Context, p *corev1.Pod) error {
	if _, err := command(ctx, "ip", "netns", "add", p.Name); err != nil {
		return err
	}
	if _, err := command(ctx, "ip", "-n", p.Name, "link", "set", "lo", "up"); err != nil { // servers detect the supported IP families by it
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

// tool returns the path of one of the programs beside this one.
func tool(name string) string {
	own, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(own), name)
}

// command runs a command and returns its output.
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

// policies measures 1,000 policies at once, and then changes of one policy.
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
	took, err := b.toggle(ctx, mastercfg.K8sPolicyPrefix, server, client, server.Status.PodIP, closed, policy)
	if err != nil {
		return nil, err
	}
	return append([]figure{cold.figure}, took.figures(fmt.Sprintf("policy change to enforcement p99, %d policies, %d pods", nodePolicies, nodePods), policyChangeGoal)...), nil
}

// services measures 1,000 services at once, and then one whose only pod is repeatedly added and removed.
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
	took, err := b.toggle(ctx, mastercfg.K8sBackendPrefix, server, client, service.Spec.ClusterIP, without, with)
	if err != nil {
		return nil, err
	}
	return append([]figure{cold.figure}, took.figures(fmt.Sprintf("pod of a service changed until its clients see it, p99, %d services", nodeServices), serviceChangeGoal)...), nil
}

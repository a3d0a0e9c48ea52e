package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/contiv/netplugin/test/testbed"
)

const (
	tcpRounds  = 5 // runs of each side, alternating; the median counts
	tcpSeconds = "3"
)

// bareScript sets up the reference on a node: two namespaces, veths and a bare bridge with the fewest static flows
// that connect them, and a tunnel to the peer.
const bareScript = `
peer=$1
mtu=$2
ovs-vsctl add-br br-bare -- set bridge br-bare datapath_type=netdev fail_mode=secure \
  -- add-port br-bare bare-vx -- set interface bare-vx type=vxlan options:key=77 options:remote_ip="$peer" options:dst_port=4790 ofport_request=9
for i in 1 2; do
  ip netns add bare$i
  ip link add bare-p$i type veth peer name eth0 netns bare$i
  ip link set bare-p$i mtu "$mtu" up
  ip -n bare$i link set eth0 mtu "$mtu" up
  ip netns exec bare$i ethtool -K eth0 tx off >/dev/null
  ovs-vsctl add-port br-bare bare-p$i -- set interface bare-p$i ofport_request=$i
done
ovs-ofctl add-flow br-bare in_port=1,actions=output:2
ovs-ofctl add-flow br-bare in_port=2,actions=output:1`

// acrossScript redirects the first namespace of both nodes to the tunnel.
const acrossScript = `
ovs-ofctl add-flow br-bare in_port=1,actions=output:9
ovs-ofctl add-flow br-bare in_port=9,actions=output:1`

// benchTCP compares iperf3 between pods with iperf3 between the same kind of veths on a bare bridge, on one node
// and across two, alternating.
func benchTCP(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	err := netctlAll(ctx, bed,
		[]string{"tenant", "create", "tcp"},
		[]string{"network", "create", "-t", "tcp", "-s", "10.34.0.0/16", "-g", "10.34.255.254", "net"})
	if err != nil {
		return nil, err
	}
	a, b := bed.Nodes[1], bed.Nodes[2]
	pods := map[string]*testbed.Pod{}
	for name, n := range map[string]*testbed.Node{"one": a, "two": a, "far": b} {
		if pods[name], err = n.AddPod(ctx, name, "tcp", "net", ""); err != nil {
			return nil, err
		}
	}
	mtu, err := pods["one"].Run(ctx, "cat", "/sys/class/net/eth0/mtu")
	if err != nil {
		return nil, err
	}
	for n, peer := range map[*testbed.Node]*testbed.Node{a: b, b: a} {
		if _, err := n.Run(ctx, "sh", "-ec", bareScript, "sh", peer.VTEPIP, mtu[:len(mtu)-1]); err != nil {
			return nil, err
		}
	}
	// Addresses of the bare namespaces: 1 and 2 on the first node, 3 on the second.
	bare := func(n *testbed.Node, ns, ip string) (netnsRunner, error) {
		_, err := n.Run(ctx, "ip", "-n", ns, "addr", "add", ip+"/24", "dev", "eth0")
		return netnsRunner{n, ns, ip}, err
	}
	bareOne, err := bare(a, "bare1", "10.98.0.1")
	if err != nil {
		return nil, err
	}
	bareTwo, err := bare(a, "bare2", "10.98.0.2")
	if err != nil {
		return nil, err
	}
	bareFar, err := bare(b, "bare1", "10.98.0.3")
	if err != nil {
		return nil, err
	}
	runner := func(name string) netnsRunner {
		return netnsRunner{pods[name].Node, name, pods[name].IP.String()}
	}
	same, err := compareTCP(ctx, "TCP, same node", "bare bridge", 0.9, runner("one"), runner("two"), bareOne, bareTwo)
	if err != nil {
		return nil, err
	}
	for _, n := range []*testbed.Node{a, b} {
		if _, err := n.Run(ctx, "sh", "-ec", acrossScript); err != nil {
			return nil, err
		}
	}
	across, err := compareTCP(ctx, "TCP, across nodes", "bare bridge", 0.9, runner("one"), runner("far"), bareOne, bareFar)
	if err != nil {
		return nil, err
	}
	return []figure{same, across}, nil
}

// netnsRunner is an end of a measurement: a namespace on a node, with its address.
type netnsRunner struct {
	node *testbed.Node
	ns   string
	ip   string
}

func (r netnsRunner) command(args ...string) []string {
	return append([]string{"ip", "netns", "exec", r.ns}, args...)
}

// compareTCP measures both alternately; the goal is a fraction of the reference.
func compareTCP(ctx context.Context, name, refName string, goal float64, from, to, refFrom, refTo netnsRunner) (figure, error) {
	var ours, reference, ratios []float64
	for range tcpRounds {
		mine, err := iperf(ctx, from, to)
		if err != nil {
			return figure{}, err
		}
		theirs, err := iperf(ctx, refFrom, refTo)
		if err != nil {
			return figure{}, err
		}
		ours, reference, ratios = append(ours, mine), append(reference, theirs), append(ratios, mine/theirs)
	}
	return figure{
		Name: name, Value: gbit(median(ours)), Reference: refName + " " + gbit(median(reference)),
		Ratio: fmt.Sprintf("%.2f", median(ratios)), Goal: fmt.Sprintf("at least %.2g", goal), Met: median(ratios) >= goal,
	}, nil
}

// iperf runs one measurement and returns bits per second at the receiver.
func iperf(ctx context.Context, from, to netnsRunner, more ...string) (float64, error) {
	server, err := to.node.Start("iperf3", to.command("iperf3", "--server", "--one-off")...)
	if err != nil {
		return 0, err
	}
	defer server.Kill() // it has already ended unless the client failed
	if err := waitListening(ctx, to); err != nil {
		return 0, err
	}
	out, err := from.node.Run(ctx, from.command(append([]string{"iperf3", "--client", to.ip, "--time", tcpSeconds, "--omit", "1", "--json"}, more...)...)...)
	if err != nil {
		return 0, err
	}
	var result struct {
		End struct {
			Received struct {
				BitsPerSecond float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		return 0, fmt.Errorf("iperf3: %w", err)
	}
	return result.End.Received.BitsPerSecond, nil
}

// waitListening waits until the iperf3 server accepts connections.
func waitListening(ctx context.Context, r netnsRunner) error {
	_, err := r.node.Run(ctx, r.command("timeout", "10", "sh", "-c", "until ss -ltn | grep -q :5201; do :; done")...)
	return err
}

func gbit(bits float64) string { return fmt.Sprintf("%.2f Gbit/s", bits/1e9) }

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

const (
	floodsFor     = "5s" // longer than the neighbour's stream
	floodsSubnet  = "10.38.0.0/16"
	floodsSubnet6 = "fd00:38::/64"
	gateway6      = "fd00:38::ffff"
	servedVIP     = "10.38.0.200"
	refusedVIP    = "10.38.0.201" // has no providers
	taker         = "taker"       // name of the pod that receives datagrams, and all other unicast packets of a flood
)

// kindOfFlood is a kind of packets that the pod sends, and their target: the gateway if empty.
type kindOfFlood struct{ name, kind, to string }

var (
	routedFloods = []kindOfFlood{
		{name: "ARP requests", kind: "arp"},
		{name: "neighbour solicitations", kind: "nd", to: gateway6},
		{name: "unknown unicast", kind: "unicast", to: taker},
		{name: "broadcast", kind: "broadcast"},
		{name: "new UDP connections to a service", kind: "flows", to: servedVIP},
		{name: "connections to a service without providers", kind: "syn", to: refusedVIP},
		{name: "packets too big for the tunnel", kind: "toobig", to: "far"},
	}
	bridgedFloods = []kindOfFlood{
		{name: "ARP requests, bridged", kind: "arp", to: taker},
		{name: "neighbour solicitations, bridged", kind: "nd", to: gateway6},
		{name: "unknown unicast, bridged", kind: "unicast", to: taker},
		{name: "broadcast, bridged", kind: "broadcast", to: taker},
	}
)

// benchFloods counts the losses of a neighbour that sends a datagram per millisecond to an echo server on another
// node, beside a pod that sends as many packets of a kind as it can, and beside as many ordinary datagrams to
// another pod of its node.
func benchFloods(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	pods, err := floodedPods(ctx, bed)
	if err != nil {
		return nil, err
	}
	return floodAll(ctx, pods, routedFloods)
}

// floodedPods returns the pods of a routed network with services.
func floodedPods(ctx context.Context, bed *testbed.Bed) (map[string]*testbed.Pod, error) {
	err := netctlAll(ctx, bed,
		[]string{"tenant", "create", "floods"},
		[]string{"network", "create", "-t", "floods", "-s", floodsSubnet, "-g", "10.38.255.254", "-s6", floodsSubnet6, "-g6", gateway6, "net"},
		[]string{"service", "create", "-t", "floods", "-s", "net", "-l", "app=taker", "-ip", servedVIP, "-p", "7:7:UDP",
			"-p", "9000:9000:UDP", "-p", "9001:9001:UDP", "-p", "9002:9002:UDP", "-p", "9003:9003:UDP",
			"-p", "9004:9004:UDP", "-p", "9005:9005:UDP", "-p", "9006:9006:UDP", "-p", "9007:9007:UDP", "served"},
		[]string{"service", "create", "-t", "floods", "-s", "net", "-l", "app=nobody", "-ip", refusedVIP, "-p", "9000:9000:TCP", "refused"})
	if err != nil {
		return nil, err
	}
	return attachFlooded(ctx, bed)
}

// benchBridgedFloods does the same in a bridged network, where all endpoints receive a copy.
func benchBridgedFloods(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	err := netctlAll(ctx, bed,
		[]string{"global", "set", "--fwd-mode", "bridge", "--arp-mode", "flood"},
		[]string{"tenant", "create", "floods"},
		[]string{"network", "create", "-t", "floods", "-s", floodsSubnet, "-s6", floodsSubnet6, "net"})
	if err != nil {
		return nil, err
	}
	pods, err := attachFlooded(ctx, bed)
	if err != nil {
		return nil, err
	}
	return floodAll(ctx, pods, bridgedFloods)
}

// attachFlooded attaches the flooding pod, its neighbours, and a pod on another node.
func attachFlooded(ctx context.Context, bed *testbed.Bed) (map[string]*testbed.Pod, error) {
	pods := map[string]*testbed.Pod{}
	for i, name := range []string{"flooder", taker, "neighbour", "far"} {
		p := &testbed.Pod{Name: "floods-" + name, Node: bed.Nodes[1+i/3], Tenant: "floods", Network: "net", Labels: map[string]string{"app": name}}
		if _, err := p.Node.Run(ctx, "ip", "netns", "add", p.Name); err != nil {
			return nil, err
		}
		if err := p.Attach(ctx); err != nil {
			return nil, err
		}
		if err := p.Serve(ctx, "-udp", floodPort); err != nil {
			return nil, err
		}
		pods[name] = p
	}
	return pods, nil
}

func floodAll(ctx context.Context, pods map[string]*testbed.Pod, kinds []kindOfFlood) (figures []figure, err error) {
	flooder := pods["flooder"]
	if _, err := flooder.Run(ctx, "ip", "link", "set", "eth0", "mtu", "9000"); err != nil {
		return nil, err
	}
	most, _, err := lostBeside(ctx, pods, "udp", pods[taker].IP.String(), 0)
	if err != nil {
		return nil, err
	}
	targets := map[string]string{"": flooder.Gateway.String(), taker: pods[taker].IP.String(), "far": pods["far"].IP.String()}
	for _, k := range kinds {
		if known, found := targets[k.to]; found {
			k.to = known
		}
		if k.to == servedVIP {
			if err := awaitEcho(ctx, flooder, servedVIP); err != nil {
				return nil, err
			}
		}
		f, err := compareFlood(ctx, k, pods, most)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// compareFlood alternates between the flood, with at most most packets per second, and as many ordinary datagrams.
func compareFlood(ctx context.Context, k kindOfFlood, pods map[string]*testbed.Pod, most float64) (figure, error) {
	var rates, reached, with, without []float64
	for range floodRounds {
		rate, lost, err := lostBeside(ctx, pods, k.kind, k.to, most)
		if err != nil {
			return figure{}, err
		}
		other, reference, err := lostBeside(ctx, pods, "udp", pods[taker].IP.String(), rate)
		if err != nil {
			return figure{}, err
		}
		rates, reached, with, without = append(rates, rate), append(reached, other), append(with, lost), append(without, reference)
	}
	f := figure{Name: fmt.Sprintf("of %d datagrams, lost beside %s", floodSteps, k.name),
		Value:     fmt.Sprintf("%.0f (%.0f/s)", median(with), median(rates)),
		Reference: fmt.Sprintf("UDP %.0f (%.0f/s)", median(without), median(reached)),
		Ratio:     "-", Goal: "not more", Met: median(with) <= median(without)}
	if median(without) > 0 {
		f.Ratio = fmt.Sprintf("%.2f", median(with)/median(without))
	}
	return f, nil
}

// lostBeside returns the neighbour's losses, and how many packets per second the flooding pod sent meanwhile. Rate
// 0 means as many as it can.
func lostBeside(ctx context.Context, pods map[string]*testbed.Pod, kind, to string, rate float64) (reached, lost float64, err error) {
	var report struct {
		Sent    int
		Seconds float64
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		flooder := pods["flooder"]
		out, err := flooder.Run(ctx, flooder.Probe(), "storm", "-kind", kind, "-to", to, "-rate", fmt.Sprint(rate), "-for", floodsFor)
		return errors.Join(err, json.Unmarshal([]byte(out), &report))
	})
	group.Go(func() error {
		lost, err = lostBy(ctx, pods["neighbour"], pods["far"])
		return err
	})
	if err := group.Wait(); err != nil {
		return 0, 0, err
	}
	return float64(report.Sent) / report.Seconds, lost, nil
}

// awaitEcho waits until an address echoes datagrams.
func awaitEcho(ctx context.Context, from *testbed.Pod, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	target := net.JoinHostPort(address, floodPort)
	return testkit.Poll(ctx, func() error {
		out, err := from.Run(ctx, from.Probe(), "reach", "-udp", target)
		var answers map[string]string
		if err = errors.Join(err, json.Unmarshal([]byte(out), &answers)); err == nil && answers[target] == "" {
			err = fmt.Errorf("%s does not answer: %s", target, out)
		}
		return err
	})
}

package main

import (
	"context"
	"fmt"
	"math"

	"github.com/contiv/netplugin/test/testbed"
)

// limitGoal is the permitted relative difference between the received rate and the limit.
const limitGoal = 0.1

// mbps is the unit of profiles, in bits per second.
const mbps = 1024 * 1024

// benchLimits compares what iperf3 measures between pods with the limit of one of them, in both directions.
// Datagrams are sent at twice the limit.
func benchLimits(ctx context.Context, bed *testbed.Bed) (figures []figure, err error) {
	err = netctlAll(ctx, bed,
		[]string{"tenant", "create", "limits"},
		[]string{"network", "create", "-t", "limits", "-s", "10.42.0.0/24", "-g", "10.42.0.254", "net"})
	if err != nil {
		return nil, err
	}
	end := func(name, group string, n *testbed.Node) (netnsRunner, error) {
		pod, err := n.AddPod(ctx, name, "limits", "net", group)
		if err != nil {
			return netnsRunner{}, err
		}
		return netnsRunner{n, name, pod.IP.String()}, nil
	}
	free, err := end("limits-free", "", bed.Nodes[2])
	if err != nil {
		return nil, err
	}
	for _, rate := range []int{10, 100} {
		name := fmt.Sprint("rate", rate)
		err := netctlAll(ctx, bed,
			[]string{"netprofile", "create", "-t", "limits", "--bandwidth", fmt.Sprintf("%dMbps", rate), name},
			[]string{"group", "create", "-t", "limits", "-n", name, "net", name})
		if err != nil {
			return nil, err
		}
		limited, err := end("limits-"+name, name, bed.Nodes[1])
		if err != nil {
			return nil, err
		}
		for _, way := range []struct {
			name     string
			from, to netnsRunner
		}{{"sent", limited, free}, {"received", free, limited}} {
			for _, by := range []struct {
				protocol string
				flags    []string
			}{{"TCP", nil}, {"UDP", []string{"--udp", "--bitrate", fmt.Sprint(2 * rate * mbps), "--length", "1400"}}} {
				bits, err := iperf(ctx, way.from, way.to, by.flags...)
				if err != nil {
					return nil, err
				}
				ratio := bits / float64(rate*mbps)
				figures = append(figures, figure{Name: fmt.Sprintf("%s %s by a pod, between nodes", by.protocol, way.name), Value: mbit(bits),
					Reference: "its limit " + mbit(float64(rate*mbps)), Ratio: fmt.Sprintf("%.2f", ratio),
					Goal: fmt.Sprintf("%.1f to %.1f", 1-limitGoal, 1+limitGoal), Met: math.Abs(ratio-1) <= limitGoal})
			}
		}
	}
	return figures, nil
}

func mbit(bits float64) string { return fmt.Sprintf("%.1f Mbit/s", bits/1e6) }

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/contiv/netplugin/test/scenario"
	"github.com/contiv/netplugin/test/testbed"
)

// cniRounds is how many pods each side attaches, alternating.
const cniRounds = 150

// referenceConfig is a network of the CNI project's own plugins.
const referenceConfig = `{"cniVersion":"1.0.0","name":"reference","plugins":[{"type":"bridge","bridge":"cni-ref","isGateway":true,
 "ipam":{"type":"host-local","subnet":"10.99.0.0/16","dataDir":"/run/cni-ref"}}]}`

// benchCNI compares the time of an ADD, as a whole process run by cnitool, with that of bridge and host-local in
// the same node, alternating. Other nodes of the bed share its processors, and learn of each pod: a bed of one
// node measures the node's own part.
func benchCNI(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	err := netctlAll(ctx, bed,
		[]string{"tenant", "create", "cni"},
		[]string{"network", "create", "-t", "cni", "-s", "10.33.0.0/16", "-g", "10.33.255.254", "net"})
	if err != nil {
		return nil, err
	}
	n := bed.Nodes[len(bed.Nodes)/2]
	if _, err := n.Run(ctx, "sh", "-ec", `printf %s "$1" > /etc/cni/net.d/20-reference.conflist`, "sh", referenceConfig); err != nil {
		return nil, err
	}
	var ours, reference []time.Duration
	for i := range cniRounds {
		pod, err := n.AddPod(ctx, fmt.Sprintf("cni%d", i), "cni", "net", "")
		if err != nil {
			return nil, err
		}
		ours = append(ours, pod.Took)
		if err := pod.Delete(ctx); err != nil {
			return nil, err
		}
		took, err := referencePod(ctx, n, fmt.Sprintf("ref%d", i))
		if err != nil {
			return nil, err
		}
		reference = append(reference, took)
	}
	where := fmt.Sprintf("CNI ADD on one of %d nodes", len(bed.Nodes))
	mine, theirs := scenario.Percentile(ours, 50), scenario.Percentile(reference, 50)
	ratio := float64(mine) / float64(theirs)
	return []figure{{
		Name: where + ", p50", Value: inMS(mine), Reference: "bridge + host-local " + inMS(theirs),
		Ratio: fmt.Sprintf("%.2f", ratio), Goal: "at most 1.1", Met: ratio <= 1.1,
	}, {
		Name: where + ", p99", Value: inMS(scenario.Percentile(ours, 99)),
		Reference: "bridge + host-local " + inMS(scenario.Percentile(reference, 99)),
		Ratio:     fmt.Sprintf("%.2f", float64(scenario.Percentile(ours, 99))/float64(scenario.Percentile(reference, 99))),
		Goal:      "none", Met: true,
	}}, nil
}

// referencePod attaches and detaches a namespace with the reference plugins.
func referencePod(ctx context.Context, n *testbed.Node, name string) (time.Duration, error) {
	if _, err := n.Run(ctx, "ip", "netns", "add", name); err != nil {
		return 0, err
	}
	cnitool := func(verb string) error {
		_, err := n.Run(ctx, "env", "CNI_PATH=/usr/lib/cni", n.Tool("cnitool"), verb, "reference", "/run/netns/"+name)
		return err
	}
	started := time.Now()
	if err := cnitool("add"); err != nil {
		return 0, err
	}
	took := time.Since(started)
	if err := cnitool("del"); err != nil {
		return 0, err
	}
	_, err := n.Run(ctx, "ip", "netns", "delete", name)
	return took, err
}

func inMS(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }

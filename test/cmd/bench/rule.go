package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/test/scenario"
	"github.com/contiv/netplugin/test/testbed"
)

const (
	ruleEndpoints = 100 // in the group the policy is on, over all nodes
	ruleRounds    = 50
	ruleGoal      = 100 * time.Millisecond
)

// benchRule measures the time from the request that adds a rule to the first
// datagram refused on the slowest of three nodes, in a group of 100 endpoints.
func benchRule(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	err := netctlAll(ctx, bed,
		[]string{"tenant", "create", "rule"},
		[]string{"network", "create", "-t", "rule", "-s", "10.35.0.0/16", "-g", "10.35.255.254", "net"},
		[]string{"policy", "create", "-t", "rule", "guard"},
		[]string{"group", "create", "-t", "rule", "-p", "guard", "net", "members"})
	if err != nil {
		return nil, err
	}
	pods := make([]*testbed.Pod, ruleEndpoints)
	var g errgroup.Group
	for k, n := range bed.Nodes {
		g.Go(func() error {
			for i := k; i < ruleEndpoints; i += len(bed.Nodes) {
				var err error
				if pods[i], err = n.AddPod(ctx, fmt.Sprintf("member%d", i), "rule", "net", "members"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	target := pods[0]
	if err := target.Serve(ctx, "-udp", "7"); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watches []*scenario.Watch
	for _, from := range []*testbed.Pod{pods[3], pods[1], pods[2]} { // one on each node
		w, err := scenario.StartWatch(ctx, from, target.IP.String()+":7")
		if err != nil {
			return nil, err
		}
		defer w.Stop()
		watches = append(watches, w)
	}
	if _, err := scenario.AwaitAll(ctx, watches, true); err != nil {
		return nil, err
	}
	var took []time.Duration
	for range ruleRounds {
		started := time.Now()
		if _, err := bed.Netctl(ctx, "policy", "rule-add", "-t", "rule", "-d", "in", "-l", "udp", "-p", "20", "-j", "deny", "guard", "no-udp"); err != nil {
			return nil, err
		}
		refused, err := scenario.AwaitAll(ctx, watches, false)
		if err != nil {
			return nil, err
		}
		took = append(took, max(0, refused.Sub(started)))
		if _, err := bed.Netctl(ctx, "policy", "rule-rm", "-t", "rule", "guard", "no-udp"); err != nil {
			return nil, err
		}
		if _, err := scenario.AwaitAll(ctx, watches, true); err != nil {
			return nil, err
		}
	}
	p50, p99 := scenario.Percentile(took, 50), scenario.Percentile(took, 99)
	return []figure{{
		Name:  fmt.Sprintf("rule to enforcement p99, %d endpoints, %d nodes", ruleEndpoints, len(bed.Nodes)),
		Value: inMS(p99) + " (p50 " + inMS(p50) + ")", Reference: "netctl start included", Ratio: "-",
		Goal: "at most " + inMS(ruleGoal), Met: p99 <= ruleGoal,
	}}, nil
}

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
	ruleEndpoints = 100 // in the group with the policy, over all nodes
	ruleRounds    = 50
	ruleGoal      = 100 * time.Millisecond
	steadyTime    = 50 * time.Millisecond // for which datagrams have to arrive before a rule is added
)

// benchRule measures the time from the request that adds a rule to the first datagram refused on the slowest of
// three nodes, in a group of 100 endpoints.
func benchRule(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	guarded, err := newGuarded(ctx, bed, ruleEndpoints)
	if err != nil {
		return nil, err
	}
	defer guarded.stop()
	var took []time.Duration
	for range ruleRounds {
		once, err := guarded.turn(ctx)
		if err != nil {
			return nil, err
		}
		took = append(took, once)
	}
	p50, p99 := scenario.Percentile(took, 50), scenario.Percentile(took, 99)
	return []figure{{
		Name:  fmt.Sprintf("rule to enforcement p99, %d endpoints, %d nodes", ruleEndpoints, len(bed.Nodes)),
		Value: inMS(p99) + " (p50 " + inMS(p50) + ")", Reference: "netctl start included", Ratio: "-",
		Goal: "at most " + inMS(ruleGoal), Met: p99 <= ruleGoal,
	}}, nil
}

// guarded is a group with a policy, and a pod on each node that sends datagrams to one of its endpoints.
type guarded struct {
	bed     *testbed.Bed
	watches []*scenario.Watch
}

func newGuarded(ctx context.Context, bed *testbed.Bed, endpoints int) (_ *guarded, err error) {
	g := &guarded{bed: bed}
	err = netctlAll(ctx, bed,
		[]string{"tenant", "create", "rule"},
		[]string{"network", "create", "-t", "rule", "-s", "10.35.0.0/16", "-g", "10.35.255.254", "net"},
		[]string{"policy", "create", "-t", "rule", "guard"},
		[]string{"group", "create", "-t", "rule", "-p", "guard", "net", "members"})
	if err != nil {
		return nil, err
	}
	pods := make([]*testbed.Pod, endpoints)
	var tasks errgroup.Group
	for k, n := range bed.Nodes {
		tasks.Go(func() error {
			for i := k; i < endpoints; i += len(bed.Nodes) {
				var err error
				if pods[i], err = n.AddPod(ctx, fmt.Sprintf("member%d", i), "rule", "net", "members"); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := tasks.Wait(); err != nil {
		return nil, err
	}
	target := pods[0]
	if err := target.Serve(ctx, "-udp", "7"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			g.stop()
		}
	}()
	for _, from := range []*testbed.Pod{pods[3], pods[1], pods[2]} { // one on each node
		w, err := scenario.StartWatch(ctx, from, target.IP.String()+":7")
		if err != nil {
			return nil, err
		}
		g.watches = append(g.watches, w)
	}
	_, err = scenario.AwaitAll(ctx, g.watches, true)
	return g, err
}

func (g *guarded) stop() {
	for _, w := range g.watches {
		w.Stop()
	}
}

// turn adds a rule and removes it again. It returns how long it took until the slowest node had it.
func (g *guarded) turn(ctx context.Context) (time.Duration, error) {
	for _, w := range g.watches { // earlier losses are not refusals
		if err := w.AwaitSteady(ctx, true, steadyTime); err != nil {
			return 0, err
		}
	}
	started := time.Now()
	if _, err := g.bed.Netctl(ctx, "policy", "rule-add", "-t", "rule", "-d", "in", "-l", "udp", "-p", "20", "-j", "deny", "guard", "no-udp"); err != nil {
		return 0, err
	}
	refused, err := scenario.AwaitAll(ctx, g.watches, false)
	if err != nil {
		return 0, err
	}
	if _, err := g.bed.Netctl(ctx, "policy", "rule-rm", "-t", "rule", "guard", "no-udp"); err != nil {
		return 0, err
	}
	_, err = scenario.AwaitAll(ctx, g.watches, true)
	return max(0, refused.Sub(started)), err
}

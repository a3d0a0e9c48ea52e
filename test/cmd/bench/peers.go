package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/contiv/netplugin/test/scenario"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// The comparison with OVN: the same pods, groups and rules on two nodes of each, in parallel on one machine,
// measured alternately from outside, by the fate of packets and by the number of flows in the switches.
const (
	peerRules   = 5000
	firstPort   = 10000 // of the rules, one port each
	peerMembers = 10    // pods of a group, over all nodes
	peerRounds  = 11
	peerCold    = 3 // rounds of all rules at once

	oneRuleGoal   = 0.25 // relative to the other
	allRulesGoal  = 0.4
	peerFlowLimit = time.Minute
)

// peerGroups are the groups. Rules deny connections from the first to the second.
var peerGroups = []string{"front", "db"}

// controller is one of the compared systems.
type controller interface {
	pods(ctx context.Context, place func(group string, number int) *testbed.Pod) error
	fill(ctx context.Context, rules int) error // denies as many TCP ports, at once
	empty(ctx context.Context) error           // removes these rules
	add(ctx context.Context) error             // one more rule, which denies UDP
	remove(ctx context.Context) error
	bridge() string // of the pods
	processes() []string
}

// contender is a controller with its pods, by group, alternately on the two nodes.
type contender struct {
	controller
	bed  *testbed.Bed
	pod  map[string][]*testbed.Pod
	took map[string][]time.Duration // by measurement

	spent *effort // for all rules at once
}

// benchPeers compares the project with OVN.
func benchPeers(ctx context.Context, bed *testbed.Bed) (_ []figure, err error) {
	theirBed, err := testbed.New(ctx, testbed.Config{Nodes: len(bed.Nodes), Readers: true, Log: os.Stdout})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, theirBed.Close()) }()
	them, err := startOVN(ctx, theirBed)
	if err != nil {
		return nil, err
	}
	ours, err := newContender(ctx, contiv{bed}, bed)
	if err != nil {
		return nil, err
	}
	theirs, err := newContender(ctx, them, theirBed)
	if err != nil {
		return nil, err
	}
	both := []*contender{ours, theirs}
	for _, step := range []func(*contender, context.Context) error{
		func(c *contender, ctx context.Context) error { return c.oneMore(ctx, "alone") },
		(*contender).allAtOnce,
		func(c *contender, ctx context.Context) error { return c.oneMore(ctx, "beside") },
	} {
		for _, c := range both {
			if err := step(c, ctx); err != nil {
				return nil, fmt.Errorf("%s: %w", c.bridge(), err)
			}
		}
	}
	figures := []figure{
		compareTimes(fmt.Sprintf("one rule more, beside %d", peerRules), "beside", oneRuleGoal, ours, theirs),
		compareTimes("one rule more, beside none", "alone", 1, ours, theirs),
		compareTimes(fmt.Sprintf("%d rules at once", peerRules), "all", allRulesGoal, ours, theirs),
	}
	for _, c := range both {
		figures = append(figures, c.spent.figures(" for all at once", peerCold)...)
	}
	for i, where := range []string{"same node", "across nodes"} {
		f, err := compareTCP(ctx, "TCP beside the rules, "+where, "OVN", 1, ours.end("front", 0), ours.end("db", i), theirs.end("front", 0), theirs.end("db", i))
		if err != nil {
			return nil, err
		}
		figures = append(figures, f)
		if f, err = compareConnections(ctx, "connections beside the rules, "+where, ours, theirs, i); err != nil {
			return nil, err
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// benchManyRules measures all rules at once in the project alone.
func benchManyRules(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	ours, err := newContender(ctx, contiv{bed}, bed)
	if err != nil {
		return nil, err
	}
	if err := ours.allAtOnce(ctx); err != nil {
		return nil, err
	}
	return append([]figure{{Name: fmt.Sprintf("%d rules at once, on both nodes", peerRules), Value: inMS(median(ours.took["all"])),
		Reference: "none", Ratio: "-", Goal: "none", Met: true}}, ours.spent.figures("", peerCold)...), nil
}

func newContender(ctx context.Context, c controller, bed *testbed.Bed) (*contender, error) {
	p := &contender{controller: c, bed: bed, pod: map[string][]*testbed.Pod{}, took: map[string][]time.Duration{}, spent: newEffort(c.processes()...)}
	err := c.pods(ctx, func(group string, number int) *testbed.Pod {
		pod := &testbed.Pod{Name: group + strconv.Itoa(number+1), Node: bed.Nodes[number%len(bed.Nodes)], Tenant: "peers", Network: "net", Group: group}
		p.pod[group] = append(p.pod[group], pod)
		return pod
	})
	if err != nil {
		return nil, err
	}
	for _, pod := range p.pod["db"][:len(bed.Nodes)] {
		if err := pod.Serve(ctx, "-tcp", "80", "-udp", "7"); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// end returns a group's first pod on a node, as an end of a measurement.
func (c *contender) end(group string, node int) netnsRunner {
	pod := c.pod[group][node]
	return netnsRunner{pod.Node, pod.Name, pod.IP.String()}
}

// oneMore measures the time from the command that adds a rule to the first denied datagram on the slower of the
// nodes. Clients send one per millisecond to the other node.
func (c *contender) oneMore(ctx context.Context, what string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watches []*scenario.Watch
	for i, from := range c.pod["front"][:len(c.bed.Nodes)] {
		to := c.pod["db"][(i+1)%len(c.bed.Nodes)]
		w, err := scenario.StartWatch(ctx, from, to.IP.String()+":7")
		if err != nil {
			return err
		}
		defer w.Stop()
		watches = append(watches, w)
	}
	if _, err := scenario.AwaitAll(ctx, watches, true); err != nil {
		return err
	}
	for range peerRounds {
		started := time.Now()
		if err := c.add(ctx); err != nil {
			return err
		}
		denied, err := scenario.AwaitAll(ctx, watches, false)
		if err != nil {
			return err
		}
		c.took[what] = append(c.took[what], denied.Sub(started))
		if err := c.remove(ctx); err != nil {
			return err
		}
		if _, err := scenario.AwaitAll(ctx, watches, true); err != nil {
			return err
		}
	}
	return nil
}

// allAtOnce measures the time from the command that adds all rules until the switches of all nodes have all flows.
// A first round determines their number. The rules are not removed.
func (c *contender) allAtOnce(ctx context.Context) error {
	none, err := c.flows(ctx)
	if err != nil {
		return err
	}
	if err := c.fill(ctx, peerRules); err != nil {
		return err
	}
	all, err := c.settled(ctx)
	if err != nil {
		return err
	}
	for range peerCold {
		if err := c.empty(ctx); err != nil {
			return err
		}
		if err := c.until(ctx, func(now int) bool { return now <= none }); err != nil {
			return err
		}
		c.spent.begin()
		started := time.Now()
		if err := c.fill(ctx, peerRules); err != nil {
			return err
		}
		if err := c.until(ctx, func(now int) bool { return now >= all }); err != nil {
			return err
		}
		c.took["all"] = append(c.took["all"], time.Since(started))
		c.spent.end()
	}
	fmt.Printf("%s: %d flows on %d nodes, %d of them for the rules\n", c.bridge(), all, len(c.bed.Nodes), all-none)
	return nil
}

// flows returns the number of flows of all nodes.
func (c *contender) flows(ctx context.Context) (sum int, err error) {
	for _, n := range c.bed.Nodes {
		out, err := n.Run(ctx, "ovs-ofctl", "-O", "OpenFlow13", "dump-aggregate", c.bridge())
		if err != nil {
			return 0, err
		}
		count, err := flowsIn(out)
		if err != nil {
			return 0, err
		}
		sum += count
	}
	return sum, nil
}

// until waits for a number of flows.
func (c *contender) until(ctx context.Context, enough func(int) bool) error {
	ctx, cancel := context.WithTimeout(ctx, peerFlowLimit)
	defer cancel()
	return testkit.Poll(ctx, func() error {
		now, err := c.flows(ctx)
		if err == nil && !enough(now) {
			err = fmt.Errorf("%d flows", now)
		}
		return err
	})
}

// settled returns the number of flows when it has not changed for some seconds.
func (c *contender) settled(ctx context.Context) (flows int, err error) {
	since := time.Now()
	err = c.until(ctx, func(now int) bool {
		if now != flows {
			flows, since = now, time.Now()
		}
		return time.Since(since) > 3*time.Second
	})
	return flows, err
}

func compareTimes(name, what string, goal float64, ours, theirs *contender) figure {
	mine, other := median(ours.took[what]), median(theirs.took[what])
	ratio := float64(mine) / float64(other)
	return figure{Name: name + ", on both nodes", Value: inMS(mine), Reference: "OVN " + inMS(other),
		Ratio: fmt.Sprintf("%.2f", ratio), Goal: fmt.Sprintf("at most %.2f", goal), Met: ratio <= goal}
}

// compareConnections compares the connection rates of a client on the first node, alternating.
func compareConnections(ctx context.Context, name string, ours, theirs *contender, server int) (figure, error) {
	rates := map[*contender][]float64{}
	for range tcpRounds {
		for _, c := range []*contender{ours, theirs} {
			rate, err := connections(ctx, c.end("front", 0), c.end("db", server).ip+":80", c.pod["front"][0].Probe())
			if err != nil {
				return figure{}, fmt.Errorf("%s: %w", c.bridge(), err)
			}
			rates[c] = append(rates[c], rate)
		}
	}
	mine, other := median(rates[ours]), median(rates[theirs])
	return figure{Name: name, Value: fmt.Sprintf("%.0f/s", mine), Reference: fmt.Sprintf("OVN %.0f/s", other),
		Ratio: fmt.Sprintf("%.2f", mine/other), Goal: "at least 1.00", Met: mine >= other}, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/contiv/netplugin/test/scenario"
	"github.com/contiv/netplugin/test/testbed"
)

const (
	gateRounds    = 100
	gateEndpoints = 12
	gateRuleGoal  = 1.15 // relative to agents that access etcd
)

// benchGateRule compares the time from the request that adds a rule to the first datagram refused on the slowest
// of three nodes, where agents access the state through netmasters, with the time where they access etcd: two
// clusters, alternating.
func benchGateRule(ctx context.Context, _ *testbed.Bed) (_ []figure, err error) {
	var clusters [2]*guarded
	for i, secure := range []bool{true, false} {
		bed, startErr := daemonsOn(ctx, testbed.Config{Nodes: 3, Secure: secure, Log: os.Stdout})
		if startErr != nil {
			return nil, startErr
		}
		defer func() { err = errors.Join(err, bed.Close()) }()
		if clusters[i], err = newGuarded(ctx, bed, gateEndpoints); err != nil {
			return nil, err
		}
		defer clusters[i].stop()
	}
	var took [2][]time.Duration
	for round := range gateRounds {
		for i := range clusters {
			which := (round + i) % len(clusters) // each is first equally often
			once, err := clusters[which].turn(ctx)
			if err != nil {
				return nil, err
			}
			took[which] = append(took[which], once)
		}
	}
	percentiles := func(p int) (gate, direct time.Duration, ratio float64) {
		gate, direct = scenario.Percentile(took[0], p), scenario.Percentile(took[1], p)
		return gate, direct, float64(gate) / float64(direct)
	}
	gate50, direct50, ratio50 := percentiles(50)
	gate99, direct99, ratio99 := percentiles(99)
	return []figure{{
		Name:  fmt.Sprintf("rule to enforcement through netmasters p99, %d endpoints, 3 nodes", gateEndpoints),
		Value: inMS(gate99) + " (p50 " + inMS(gate50) + ")", Reference: "agents that reach etcd " + inMS(direct99) + " (p50 " + inMS(direct50) + ")",
		Ratio: fmt.Sprintf("%.2f (p50 %.2f)", ratio99, ratio50), Goal: fmt.Sprintf("at most %.2f", gateRuleGoal), Met: ratio99 <= gateRuleGoal,
	}}, nil
}

// daemonsOn returns a bed with ready daemons.
func daemonsOn(ctx context.Context, config testbed.Config) (*testbed.Bed, error) {
	bed, err := testbed.New(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := bed.StartDaemons(ctx); err != nil {
		bed.DumpLogs(os.Stderr)
		return nil, errors.Join(err, bed.Close())
	}
	return bed, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

// benchGateMemory compares the anonymous memory of netmasters through which many simulated agents access the state
// with that of netmasters whose etcd members as many agents access, without TLS: two clusters, one after the
// other, with the same endpoints.
func benchGateMemory(ctx context.Context, _ *testbed.Bed) ([]figure, error) {
	var with [2][]float64
	for i, secure := range []bool{false, true} {
		var err error
		if with[i], err = memoryWithAgents(ctx, secure); err != nil {
			return nil, err
		}
	}
	var all [2]float64
	for i := range with {
		for _, size := range with[i] {
			all[i] += size
		}
	}
	ratio := all[1] / all[0]
	return []figure{{
		Name:  fmt.Sprintf("three netmasters that %d agents reach the state through, %d endpoints", gateAgents(), gateTenants*gatePerTenant),
		Value: inMiB(with[1]), Reference: "netmasters whose etcd they reach, without TLS, " + inMiB(with[0]), Ratio: fmt.Sprintf("%.2f", ratio),
		Goal: fmt.Sprintf("at most %.1f", gateMemoryGoal), Met: ratio <= gateMemoryGoal,
	}}, nil
}

// memoryWithAgents returns the memory of the netmasters of a separate cluster, with agents.
func memoryWithAgents(ctx context.Context, secure bool) (sizes []float64, err error) {
	bed, err := daemonsOn(ctx, testbed.Config{Nodes: 3, Secure: secure, Log: os.Stdout})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	if _, err := insideLeader("gatefill")(ctx, bed); err != nil {
		return nil, err
	}
	leader, err := bed.Leader(ctx)
	if err != nil {
		return nil, err
	}
	what, urls, token := "direct", bed.EtcdEndpoints(), ""
	if secure {
		what, urls = "agents", bed.MasterURLs()
		if token, err = nodeToken(ctx, bed); err != nil {
			return nil, err
		}
	}
	agents, err := begin(crowdOn(ctx, leader, urls, token, what))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, agents.end()) }()
	said, err := agents.line()
	if err != nil {
		return nil, err
	}
	fmt.Printf("agents (%s): %s\n", what, said)
	return masterMemory(ctx, bed)
}

// nodeToken returns a join token for all simulated agents.
func nodeToken(ctx context.Context, bed *testbed.Bed) (string, error) {
	token, err := bed.Netctl(ctx, "token", "create", "--role", "node", "--uses", strconv.Itoa(gateAgents()+10), "-q")
	return strings.TrimSpace(token), err
}

// crowdOn returns the command that runs simulated nodes on a node.
func crowdOn(ctx context.Context, n *testbed.Node, urls []string, token, what string) *exec.Cmd {
	args := []string{"env", "CONTIV_BENCH_TOKEN=" + token, "CONTIV_BENCH_AGENTS=" + strconv.Itoa(gateAgents()), n.Tool("bench"), "crowd", strings.Join(urls, ","), what}
	if what == "thief" { // in reality it would have its own processor
		args = append([]string{"nice", "-n", "19"}, args...)
	}
	return n.Command(ctx, args...)
}

// inMiB formats sizes for figures.
func inMiB(sizes []float64) string {
	var shown []string
	for _, size := range sizes {
		shown = append(shown, fmt.Sprintf("%.0f MiB", size))
	}
	return strings.Join(shown, ", ")
}

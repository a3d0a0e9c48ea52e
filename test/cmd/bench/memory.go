package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

const (
	memoryNetworks  = 1000
	memoryEndpoints = 100000
	memoryClients   = 64
	memoryGoal      = 1024 // MiB
)

// benchMemory fills the cluster and reads what the leading netmaster occupies
// then, its etcd member included; the reference is the same process before.
func benchMemory(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	leader, err := bed.Leader(ctx)
	if err != nil {
		return nil, err
	}
	before, err := resident(leader.Netmaster().PID, "VmRSS")
	if err != nil {
		return nil, err
	}
	if _, err := insideLeader("fill")(ctx, bed); err != nil {
		return nil, err
	}
	after, err := resident(leader.Netmaster().PID, "VmRSS")
	if err != nil {
		return nil, err
	}
	most, err := resident(leader.Netmaster().PID, "VmHWM")
	if err != nil {
		return nil, err
	}
	return []figure{{
		Name:  fmt.Sprintf("netmaster with %d networks, %d endpoints", memoryNetworks, memoryEndpoints),
		Value: fmt.Sprintf("%.0f MiB (at most %.0f)", after, most), Reference: fmt.Sprintf("before %.0f MiB", before), Ratio: "-",
		Goal: fmt.Sprintf("less than %d MiB", memoryGoal), Met: most < memoryGoal,
	}}, nil
}

// fillMemory leaves the objects there: the bed goes after the last measurement.
func fillMemory(ctx context.Context, s *site) ([]figure, error) {
	if _, err := s.stage(ctx, "crowd"); err != nil {
		return nil, err
	}
	if _, err := s.Apply(ctx, networks("crowd", memoryNetworks), false); err != nil {
		return nil, err
	}
	_, err := spread(ctx, memoryClients, memoryEndpoints, func(ctx context.Context, i int) error {
		return s.createEndpoint(ctx, "crowd", fmt.Sprintf("n%05d", i%memoryNetworks), "", fmt.Sprintf("%064x", i))
	})
	return []figure{}, err
}

// resident is a line of a process's status, in MiB.
func resident(pid int, line string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(status), line+":")
	fields := strings.Fields(rest)
	if !found || len(fields) == 0 {
		return 0, fmt.Errorf("/proc/%d/status: no %s", pid, line)
	}
	kib, err := strconv.ParseFloat(fields[0], 64)
	return kib / 1024, err
}

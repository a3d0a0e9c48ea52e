// Package scenario shows the project's functions as acts of several steps on a test bed; `make demo` runs it. The
// end-to-end test asserts the first act.
//
// The first act: two tenants use the same subnet; one of them has two networks with a group each. Six pods on
// three nodes reach each other exactly as the model says, before, during and after a policy; the leader is killed
// during work, an agent restarts under traffic, and in the end nothing is left.
//
// The second act: a dual-stack tenant has a service, DNS names and a bandwidth limit; then its pods are on a VLAN,
// with an external router that is unaware of the controller.
package scenario

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

// Scenario has the state that the steps share.
type Scenario struct {
	bed    *testbed.Bed
	out    io.Writer
	report Report

	pods   map[string]*testbed.Pod
	before testbed.Snapshot // of the cluster, before the first object
}

// step has a title and a function.
type step struct {
	title string
	run   func(*Scenario, context.Context) error
}

// Act is a list of steps; after the last one the cluster is as before the first.
type Act []step

// MainJob is the first act; it needs three nodes.
var MainJob = Act{
	{"objects: two tenants, three networks, two groups", (*Scenario).createObjects},
	{"pods: six over three nodes, through the CNI", (*Scenario).createPods},
	{"reachability without a policy", (*Scenario).matrixOpen},
	{"reachability with a policy on group db", (*Scenario).matrixGuarded},
	{"reachability after the policy is gone", (*Scenario).matrixOpenAgain},
	{"a rule takes effect", (*Scenario).measureRule},
	{"an agent restarts under traffic", (*Scenario).restartAgent},
	{"the leader is killed while pods are made", (*Scenario).killLeader},
	{"everything is deleted", (*Scenario).deleteAll},
}

// SecondAct is the second act; it also needs uplinks.
var SecondAct = Act{
	{"a tenant with IPv4 and IPv6", (*Scenario).createBothVersions},
	{"a service with two providers", (*Scenario).createService},
	{"names of endpoints and services", (*Scenario).resolveNames},
	{"a limit acts on running endpoints", (*Scenario).limitGroup},
	{"a VLAN with a router outside", (*Scenario).moveToVLAN},
	{"everything is deleted again", (*Scenario).deleteSecondAct},
}

// Run runs acts one after the other on a bed with ready daemons. A failed check is counted and the act continues;
// a step that cannot continue ends it with an error, and counts as a failed check too.
func Run(ctx context.Context, bed *testbed.Bed, out io.Writer, acts ...Act) (*Report, error) {
	s := &Scenario{bed: bed, out: out, pods: map[string]*testbed.Pod{}}
	var err error
	if s.before, err = bed.Snapshot(ctx); err != nil {
		return &s.report, err
	}
	for i, step := range slices.Concat(acts...) {
		fmt.Fprintf(out, "\n== %d. %s\n", i+1, step.title)
		started := time.Now()
		if err := step.run(s, ctx); err != nil {
			s.check(false, "%s: %v", step.title, err)
			return &s.report, fmt.Errorf("step %d, %s: %w", i+1, step.title, err)
		}
		fmt.Fprintf(out, "   (%.1f s)\n", time.Since(started).Seconds())
	}
	return &s.report, nil
}

// netctl runs netctl and prints the command.
func (s *Scenario) netctl(ctx context.Context, args ...string) error {
	fmt.Fprintf(s.out, "   netctl %s\n", join(args))
	_, err := s.bed.Netctl(ctx, args...)
	return err
}

// netctlAll runs commands in order until one fails.
func (s *Scenario) netctlAll(ctx context.Context, commands ...[]string) error {
	for _, c := range commands {
		if err := s.netctl(ctx, c...); err != nil {
			return err
		}
	}
	return nil
}

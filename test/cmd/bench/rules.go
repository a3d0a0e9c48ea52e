package main

import (
	"context"
	"fmt"

	"github.com/contiv/netplugin/test/testbed"
)

const (
	rulesInForce = 15_000
	rulesNodes   = 2 // nodes with pods, and therefore with the rules
	rulesGoal    = 0.95
)

// benchRules compares iperf3 between pods of a group with 15,000 rules with iperf3 between pods of a tenant
// without rules, on one node and across two, alternating.
func benchRules(ctx context.Context, bed *testbed.Bed) (figures []figure, err error) {
	pods := map[string]*testbed.Pod{}
	for i, tenant := range []string{"ruled", "free"} {
		err := netctlAll(ctx, bed,
			[]string{"tenant", "create", tenant},
			[]string{"network", "create", "-t", tenant, "-s", fmt.Sprintf("10.4%d.0.0/24", i), "-g", fmt.Sprintf("10.4%d.0.254", i), "net"},
			[]string{"policy", "create", "-t", tenant, "guard"},
			[]string{"group", "create", "-t", tenant, "-p", "guard", "net", "db"})
		if err != nil {
			return nil, err
		}
		for name, n := range map[string]*testbed.Node{"one": bed.Nodes[1], "two": bed.Nodes[1], "three": bed.Nodes[2]} {
			name = tenant + "-" + name
			if pods[name], err = n.AddPod(ctx, name, tenant, "net", "db"); err != nil {
				return nil, err
			}
		}
	}
	switches := &contender{controller: contiv{bed}, bed: bed}
	before, err := switches.flows(ctx)
	if err != nil {
		return nil, err
	}
	if err := denyPorts(ctx, bed, "ruled", rulesInForce, ""); err != nil {
		return nil, err
	}
	if err := switches.until(ctx, func(now int) bool { return now >= before+rulesNodes*rulesInForce }); err != nil {
		return nil, err
	}
	runner := func(name string) netnsRunner { return netnsRunner{pods[name].Node, name, pods[name].IP.String()} }
	for _, c := range []struct{ where, to string }{{"same node", "two"}, {"across nodes", "three"}} {
		f, err := compareTCP(ctx, fmt.Sprintf("TCP beside %d rules, %s", rulesInForce, c.where), "beside none", rulesGoal,
			runner("ruled-one"), runner("ruled-"+c.to), runner("free-one"), runner("free-"+c.to))
		if err != nil {
			return nil, err
		}
		figures = append(figures, f)
	}
	return figures, nil
}

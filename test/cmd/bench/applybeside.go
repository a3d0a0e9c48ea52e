package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/test/scenario"
)

// largeApply is the number of objects of an apply that is stored with a journal.
const largeApply = 10000

// measureApplyBeside creates tenants while another client repeatedly applies thousands of rules and deletes them
// again; the reference is creating tenants alone.
func measureApplyBeside(ctx context.Context, s *site) ([]figure, error) {
	alone, err := s.beside(ctx, func(ctx context.Context) error {
		select {
		case <-time.After(besidePause):
		case <-ctx.Done():
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	undo, err := s.prepare(ctx, &contivmodel.Tenant{TenantName: "bulk"}, &contivmodel.Policy{TenantName: "bulk", PolicyName: "guard"})
	if err != nil {
		return nil, err
	}
	operations := make([]client.Operation, largeApply)
	for i := range operations {
		operations[i] = client.ToApply(&contivmodel.Rule{TenantName: "bulk", PolicyName: "guard", RuleID: fmt.Sprintf("r%05d", i),
			Direction: "in", Action: "allow", Protocol: "tcp", Port: 1 + i, Priority: 1})
	}
	var took []time.Duration
	busy, err := s.beside(ctx, func(ctx context.Context) error {
		t, err := timed(func() error { _, err := s.Apply(ctx, operations, false); return err })
		if err != nil {
			return err
		}
		took = append(took, t)
		return s.remove(ctx, operations)
	})
	if err != nil {
		return nil, err
	}
	slowest, usual := scenario.Percentile(busy, 99), scenario.Percentile(alone, 99)
	return []figure{{
		Name:      fmt.Sprintf("tenant created beside applies of %d objects, p99 of %d", largeApply, len(busy)),
		Value:     fmt.Sprintf("%s (worst %s; an apply %s)", inMS(slowest), inMS(slices.Max(busy)), inMS(median(took))),
		Reference: "alone " + inMS(usual), Ratio: fmt.Sprintf("%.1f", float64(slowest)/float64(usual)),
		Goal: "at most " + inMS(besideGoal), Met: slowest <= besideGoal,
	}}, undo(ctx)
}

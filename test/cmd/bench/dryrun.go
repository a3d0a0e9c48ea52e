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

const (
	dryOperations = 195000
	dryGoal       = 10 * time.Second
	besideGoal    = 100 * time.Millisecond
	besidePause   = 20 * time.Millisecond
)

// measureDryRun tries an apply of which every other operation is refused, while
// another client makes tenants; the reference is making tenants alone.
func measureDryRun(ctx context.Context, s *site) ([]figure, error) {
	alone, err := s.beside(ctx, func(ctx context.Context) error {
		select {
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	operations := make([]client.Operation, dryOperations)
	for i := range operations {
		if i%2 == 0 {
			operations[i] = client.ToApply(&contivmodel.Policy{TenantName: "default", PolicyName: fmt.Sprintf("p%06d", i)})
		} else {
			operations[i] = client.Operation{Op: client.OpDelete, Type: "policy", Key: fmt.Sprintf("default:absent%06d", i)}
		}
	}
	var took time.Duration
	busy, err := s.beside(ctx, func(ctx context.Context) error {
		began := time.Now()
		_, err := s.Apply(ctx, operations, true)
		took = time.Since(began)
		if err == nil {
			return fmt.Errorf("a dry run of %d operations, half of them refused, succeeds", dryOperations)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slowest, usual := scenario.Percentile(busy, 99), scenario.Percentile(alone, 99)
	return []figure{{
		Name: fmt.Sprintf("dry run of %d operations, half refused", dryOperations), Value: inMS(took), Reference: "none", Ratio: "-",
		Goal: "at most " + inMS(dryGoal), Met: took <= dryGoal,
	}, {
		Name: "tenant created meanwhile, p99", Value: fmt.Sprintf("%s (worst %s)", inMS(slowest), inMS(slices.Max(busy))),
		Reference: "alone " + inMS(usual), Ratio: fmt.Sprintf("%.1f", float64(slowest)/float64(usual)),
		Goal: "at most " + inMS(besideGoal), Met: slowest <= besideGoal,
	}}, nil
}

// beside makes and deletes a tenant over and over while something happens, and
// tells how long each creation took.
func (s *site) beside(ctx context.Context, happens func(context.Context) error) (took []time.Duration, err error) {
	done := make(chan error, 1)
	go func() { done <- happens(ctx) }()
	for {
		select {
		case err := <-done:
			return took, err
		case <-time.After(besidePause):
		}
		t, err := timed(func() error { return client.Post(ctx, s.Client, &contivmodel.Tenant{TenantName: "beside"}) })
		if err != nil {
			return nil, err
		}
		took = append(took, t)
		kind, _ := contivmodel.KindByType("tenant")
		if err := s.Delete(ctx, kind, "beside"); err != nil {
			return nil, err
		}
	}
}

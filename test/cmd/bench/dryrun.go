package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/test/scenario"
)

const (
	dryOperations = 195000
	dryGoal       = 10 * time.Second
	besideGoal    = 100 * time.Millisecond
	besidePause   = 5 * time.Millisecond
	besideSamples = 500 // so that five of them are above the p99
)

// measureDryRun repeats the dry run of an apply with every other operation refused, while another client creates
// tenants; the reference is creating tenants alone.
func measureDryRun(ctx context.Context, s *site) ([]figure, error) {
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
	// As short as possible: the size of a request is limited.
	undo, err := s.prepare(ctx, &contivmodel.Tenant{TenantName: "t"})
	if err != nil {
		return nil, err
	}
	var body strings.Builder
	body.WriteString(`{"operations":[`)
	for i := range dryOperations / 2 {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"op":"apply","type":"policy","key":"t:%d","object":{"tenantName":"t","policyName":"%d"}},`, i, i)
		fmt.Fprintf(&body, `{"op":"delete","type":"policy","key":"t:x%d"}`, i)
	}
	body.WriteString(`]}`)
	var took []time.Duration
	busy, err := s.beside(ctx, func(ctx context.Context) error {
		t, err := timed(func() error {
			_, err := s.do(ctx, http.MethodPost, "/api/v1/apply?dryRun=true", strings.NewReader(body.String()))
			return err
		})
		took = append(took, t)
		if err == nil || !strings.Contains(err.Error(), "policy t:x") {
			return fmt.Errorf("a dry run of %d operations, half of them to be refused: %.200v", dryOperations, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	run, slowest, usual := median(took), scenario.Percentile(busy, 99), scenario.Percentile(alone, 99)
	return []figure{{
		Name: fmt.Sprintf("dry run of %d operations, half refused", dryOperations), Value: inMS(run), Reference: "none", Ratio: "-",
		Goal: "at most " + inMS(dryGoal), Met: run <= dryGoal,
	}, {
		Name: fmt.Sprintf("tenant created meanwhile, p99 of %d", len(busy)), Value: fmt.Sprintf("%s (worst %s)", inMS(slowest), inMS(slices.Max(busy))),
		Reference: "alone " + inMS(usual), Ratio: fmt.Sprintf("%.1f", float64(slowest)/float64(usual)),
		Goal: "at most " + inMS(besideGoal), Met: slowest <= besideGoal,
	}}, undo(ctx)
}

// beside repeatedly creates and deletes a tenant while happens runs repeatedly, and returns how long each creation
// took.
func (s *site) beside(ctx context.Context, happens func(context.Context) error) (took []time.Duration, err error) {
	var enough atomic.Bool
	happening, ctx := errgroup.WithContext(ctx)
	happening.Go(func() error {
		for !enough.Load() {
			if err := happens(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	defer func() {
		enough.Store(true)
		if failed := happening.Wait(); failed != nil {
			err = failed
		}
	}()
	for len(took) < besideSamples {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
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
	return took, nil
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
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
	// Written as briefly as possible: the size of a request is limited.
	undo, err := s.prepare(ctx, &contivmodel.Tenant{TenantName: "t"})
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	body.WriteString(`{"operations":[`)
	for i := range dryOperations / 2 {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"op":"apply","type":"policy","key":"t:%d","object":{"tenantName":"t","policyName":"%d"}},`, i, i)
		fmt.Fprintf(&body, `{"op":"delete","type":"policy","key":"t:x%d"}`, i)
	}
	body.WriteString(`]}`)
	var took time.Duration
	busy, err := s.beside(ctx, func(ctx context.Context) error {
		began := time.Now()
		_, err := s.do(ctx, http.MethodPost, "/api/v1/apply?dryRun=true", &body)
		took = time.Since(began)
		if err == nil || !strings.Contains(err.Error(), "policy t:x") {
			return fmt.Errorf("a dry run of %d operations, half of them to be refused: %.200v", dryOperations, err)
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
	}}, undo(ctx)
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

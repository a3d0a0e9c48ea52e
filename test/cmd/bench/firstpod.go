package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testbed"
)

const (
	firstEndpoints = 50000
	firstGoal      = 300 * time.Millisecond
)

// benchFirstPod measures the ADD of a tenant's first pod on a node, when the tenant has many endpoints on other
// nodes, whose flows the node did not have before. The reference is the next pod.
func benchFirstPod(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	if _, err := insideLeader("elsewhere")(ctx, bed); err != nil {
		return nil, err
	}
	if err := quiet(ctx); err != nil {
		return nil, err
	}
	var first, next []time.Duration
	for _, n := range bed.Nodes[1:] {
		for i, took := range []*[]time.Duration{&first, &next} {
			pod, err := n.AddPod(ctx, fmt.Sprintf("%s-%d", n.Name, i), "full", "net", "")
			if err != nil {
				return nil, err
			}
			*took = append(*took, pod.Took)
		}
	}
	worst := slices.Max(first)
	return []figure{{
		Name: fmt.Sprintf("ADD of a tenant's first pod, %d remote endpoints", firstEndpoints), Value: inMS(worst),
		Reference: "next pod " + inMS(median(next)), Ratio: fmt.Sprintf("%.1f", float64(worst)/float64(median(next))),
		Goal: "at most " + inMS(firstGoal), Met: worst <= firstGoal,
	}}, nil
}

// fillElsewhere creates endpoint records on the first node.
func fillElsewhere(ctx context.Context, s *site) ([]figure, error) {
	_, err := s.prepare(ctx, &contivmodel.Tenant{TenantName: "full"},
		&contivmodel.Network{TenantName: "full", NetworkName: "net", Encap: "vxlan", Subnet: "10.36.0.0/16", Gateway: "10.36.255.254"})
	if err != nil {
		return nil, err
	}
	_, err = spread(ctx, memoryClients, firstEndpoints, func(ctx context.Context, i int) error {
		container := fmt.Sprintf("%064x", i)
		return s.post(ctx, mastercfg.CreateEndpointPath, mastercfg.CreateEndpointRequest{TenantName: "full", NetworkName: "net", EndpointID: container,
			ConfigEP: mastercfg.ConfigEP{Container: container, Host: "node1"}})
	})
	return []figure{}, err
}

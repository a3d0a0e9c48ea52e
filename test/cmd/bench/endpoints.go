package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
)

const (
	endpointCount  = 8000 // per run: a few seconds
	endpointRounds = 3    // runs of each side, alternating; the median counts
	recordSize     = 420  // bytes of an endpoint's record in the store
)

// endpointGoals are the required fractions of the store's own rate, by number of clients and of networks with the
// endpoints.
var endpointGoals = []struct {
	clients, networks int
	share             float64
}{{16, 1, 0.25}, {64, 1, 0.5}, {64, 64, 0.7}}

// measureEndpoints compares createEndpoint with guarded single-key transactions
// on the same etcd, at the same concurrency.
func measureEndpoints(ctx context.Context, s *site) ([]figure, error) {
	undo, err := s.prepare(ctx, wideNetworks("load")...)
	if err != nil {
		return nil, err
	}
	var figures []figure
	for _, goal := range endpointGoals {
		var ours, raw []float64
		for range endpointRounds {
			r, err := s.rawRate(ctx, goal.clients)
			if err != nil {
				return nil, err
			}
			raw = append(raw, r)
			r, err = s.endpointRate(ctx, goal.clients, goal.networks)
			if err != nil {
				return nil, err
			}
			ours = append(ours, r)
		}
		ratio := median(ours) / median(raw)
		figures = append(figures, figure{
			Name:      fmt.Sprintf("createEndpoint, %d clients, %d networks /16", goal.clients, goal.networks),
			Value:     fmt.Sprintf("%.0f/s", median(ours)),
			Reference: fmt.Sprintf("etcd transactions %.0f/s", median(raw)),
			Ratio:     fmt.Sprintf("%.2f", ratio),
			Goal:      fmt.Sprintf("at least %.2f", goal.share),
			Met:       ratio >= goal.share,
		})
	}
	return figures, undo(ctx)
}

// endpointRate measures the creation of endpoints, and then deletes them.
func (s *site) endpointRate(ctx context.Context, clients, networks int) (float64, error) {
	network := func(i int) string { return wideName(i % networks) }
	rate, err := spread(ctx, clients, endpointCount, func(ctx context.Context, i int) error {
		return s.createEndpoint(ctx, "load", network(i), "", fmt.Sprintf("load%d", i))
	})
	if err != nil {
		return 0, err
	}
	_, err = spread(ctx, clients, endpointCount, func(ctx context.Context, i int) error {
		return s.deleteEndpoint(ctx, "load", network(i), fmt.Sprintf("load%d", i))
	})
	return rate, err
}

// rawRate measures writes of records with the same size, and then deletes them.
func (s *site) rawRate(ctx context.Context, clients int) (float64, error) {
	value := bytes.Repeat([]byte("x"), recordSize)
	key := func(i int) string { return fmt.Sprintf("/contiv.io/bench/%d", i) }
	rate, err := spread(ctx, clients, endpointCount, func(ctx context.Context, i int) error {
		_, ok, err := s.db.Txn(ctx, objdb.Txn{If: []objdb.Guard{objdb.Absent(key(i))}, Puts: []objdb.KV{{Key: key(i), Value: value}}})
		if err == nil && !ok {
			err = fmt.Errorf("%s is there already", key(i))
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	_, err = spread(ctx, clients, endpointCount, func(ctx context.Context, i int) error {
		_, _, err := s.db.Txn(ctx, objdb.Txn{Deletes: []string{key(i)}})
		return err
	})
	return rate, err
}

func (s *site) createEndpoint(ctx context.Context, tenant, network, group, container string) error {
	return s.createEndpointOn(ctx, "loadhost", tenant, network, group, container)
}

func (s *site) createEndpointOn(ctx context.Context, host, tenant, network, group, container string) error {
	return s.post(ctx, mastercfg.CreateEndpointPath, mastercfg.CreateEndpointRequest{
		TenantName: tenant, NetworkName: network, EndpointID: container,
		ConfigEP: mastercfg.ConfigEP{Container: container, Host: host, ServiceName: group},
	})
}

func (s *site) deleteEndpoint(ctx context.Context, tenant, network, container string) error {
	return s.post(ctx, mastercfg.DeleteEndpointPath, mastercfg.DeleteEndpointRequest{TenantName: tenant, NetworkName: network, EndpointID: container})
}

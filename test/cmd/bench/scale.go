package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
)

const (
	applyObjects = 1000
	applyRounds  = 11
	applyGoal    = 2.0 // relative to writing the same keys to etcd

	listObjects = 10000
	listRounds  = 20
	listGoal    = 300 * time.Millisecond

	transactionKeys = 100 // keys of a raw transaction; etcd's limit is 128 operations
)

// widest is the range of VNIs for the networks measured here.
const widest = "1-16000"

// networks returns vxlan networks of a tenant, each with a subnet of its own.
func networks(tenant string, n int) []client.Operation {
	operations := make([]client.Operation, n)
	for i := range n {
		operations[i] = client.ToApply(&contivmodel.Network{TenantName: tenant, NetworkName: fmt.Sprintf("n%05d", i), Encap: "vxlan",
			Subnet: fmt.Sprintf("10.%d.%d.0/24", 64+i>>8, i&255)})
	}
	return operations
}

// rules returns rules of the policy guard of a tenant, from the group back.
func rules(tenant string, n int) []client.Operation {
	operations := make([]client.Operation, n)
	for i := range n {
		operations[i] = client.ToApply(rule(tenant, fmt.Sprintf("r%05d", i), 1+i))
	}
	return operations
}

func rule(tenant, id string, port int) *contivmodel.Rule {
	return &contivmodel.Rule{TenantName: tenant, PolicyName: "guard", RuleID: id, Direction: "in", Action: "allow", Protocol: "tcp",
		Port: port, Priority: 1, FromEndpointGroup: "back"}
}

// stage creates a tenant with a network, two groups and a policy on one of them, in a cluster with enough VNIs.
func (s *site) stage(ctx context.Context, tenant string) (undo func(context.Context) error, err error) {
	if err := s.widen(ctx); err != nil {
		return nil, err
	}
	return s.prepare(ctx,
		&contivmodel.Tenant{TenantName: tenant},
		&contivmodel.Network{TenantName: tenant, NetworkName: "net", Encap: "vxlan", Subnet: "10.32.0.0/16"},
		&contivmodel.Policy{TenantName: tenant, PolicyName: "guard"},
		&contivmodel.EndpointGroup{TenantName: tenant, GroupName: "front", NetworkName: "net", Policies: []string{"guard"}},
		&contivmodel.EndpointGroup{TenantName: tenant, GroupName: "back", NetworkName: "net"})
}

func (s *site) widen(ctx context.Context) error {
	kind, _ := contivmodel.KindByType("global")
	return s.Change(ctx, kind, "global", func(o contivmodel.Object, absent error) error {
		o.(*contivmodel.Global).Vxlans = widest
		return absent
	})
}

// measureApply applies a thousand objects at once, half networks and half rules; the reference is writing the same
// number of keys.
func measureApply(ctx context.Context, s *site) ([]figure, error) {
	undo, err := s.stage(ctx, "bulk")
	if err != nil {
		return nil, err
	}
	operations := append(networks("bulk", applyObjects/2), rules("bulk", applyObjects/2)...)
	var took, raw []time.Duration
	for range applyRounds {
		before, err := s.keys(ctx)
		if err != nil {
			return nil, err
		}
		t, err := timed(func() error { _, err := s.Apply(ctx, operations, false); return err })
		if err != nil {
			return nil, err
		}
		took = append(took, t)
		after, err := s.keys(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.remove(ctx, operations); err != nil {
			return nil, err
		}
		keys := after - before
		t, err = timed(func() error { return s.raw(ctx, keys, func(t *objdb.Txn, kv objdb.KV) { t.Puts = append(t.Puts, kv) }) })
		if err != nil {
			return nil, err
		}
		raw = append(raw, t)
		if err := s.raw(ctx, keys, func(t *objdb.Txn, kv objdb.KV) { t.Deletes = append(t.Deletes, kv.Key) }); err != nil {
			return nil, err
		}
	}
	ratio := float64(median(took)) / float64(median(raw))
	return []figure{{
		Name: fmt.Sprintf("apply of %d objects", applyObjects), Value: inMS(median(took)),
		Reference: "as many keys in etcd " + inMS(median(raw)), Ratio: fmt.Sprintf("%.1f", ratio),
		Goal: fmt.Sprintf("at most %.1f", applyGoal), Met: ratio <= applyGoal,
	}}, undo(ctx)
}

// keys returns the number of stored keys.
func (s *site) keys(ctx context.Context) (int, error) {
	all, _, err := s.db.List(ctx, mastercfg.Root)
	return len(all), err
}

// raw calls add for n keys of a usual size, in large transactions.
func (s *site) raw(ctx context.Context, n int, add func(*objdb.Txn, objdb.KV)) error {
	value := bytes.Repeat([]byte("x"), recordSize)
	for from := 0; from < n; from += transactionKeys {
		var t objdb.Txn
		for i := from; i < min(from+transactionKeys, n); i++ {
			add(&t, objdb.KV{Key: fmt.Sprintf("/contiv.io/bench/%d", i), Value: value})
		}
		if _, _, err := s.db.Txn(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// measureList lists ten thousand networks; the reference is reading their records from etcd.
func measureList(ctx context.Context, s *site) ([]figure, error) {
	undo, err := s.stage(ctx, "many")
	if err != nil {
		return nil, err
	}
	many := networks("many", listObjects)
	if _, err := s.Apply(ctx, many, false); err != nil {
		return nil, err
	}
	var took, raw []time.Duration
	size := 0
	for range listRounds {
		t, err := timed(func() (err error) { size, err = s.do(ctx, http.MethodGet, "/api/v1/networks/", nil); return err })
		if err != nil {
			return nil, err
		}
		took = append(took, t)
		t, err = timed(func() error { _, _, err := s.db.List(ctx, mastercfg.ModelKey("network", "")); return err })
		if err != nil {
			return nil, err
		}
		raw = append(raw, t)
	}
	if err := s.remove(ctx, many); err != nil {
		return nil, err
	}
	return []figure{{
		Name: fmt.Sprintf("list of %d networks, %.1f MB", listObjects, float64(size)/1e6), Value: inMS(median(took)),
		Reference: "their records from etcd " + inMS(median(raw)), Ratio: fmt.Sprintf("%.1f", float64(median(took))/float64(median(raw))),
		Goal: "at most " + inMS(listGoal), Met: median(took) <= listGoal,
	}}, undo(ctx)
}

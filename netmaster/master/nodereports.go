package master

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Reports finds and deletes what agents have reported; a transaction fails once the term is over.
type Reports interface {
	List(ctx context.Context, prefix string) ([]objdb.KV, int64, error)
	Txn(ctx context.Context, t objdb.Txn) (rev int64, ok bool, err error)
}

// dropReported deletes the reports of a node's agent about its switch and about endpoints that are
// gone, unless the agent returns.
func (c *NodeCollector) dropReported(ctx context.Context, host string) error {
	var guards []objdb.Guard
	back := false
	err := c.ledger.View(func(r ledger.Reader) error {
		back = isRegistered(r, host)
		for _, prefix := range registries {
			guards = append(guards, objdb.RangeNotAfter(prefix, objdb.PrefixEnd(prefix), r.Snapshot(prefix)))
		}
		return nil
	})
	if err != nil || back {
		return err
	}
	return errors.Join(c.dropEndpoints(ctx, host), c.drop(ctx, mastercfg.OvsDriverPrefix+host, guards...), c.drop(ctx, mastercfg.K8sEnforcedKey(host), guards...))
}

// dropForgotten deletes the reports of nodes that are gone and have neither endpoints nor a record: those that were
// drained first, in a cluster whose nodes do not join. A node that returns reports again.
func (c *NodeCollector) dropForgotten(ctx context.Context) error {
	said, _, err := c.reports.List(ctx, mastercfg.K8sEnforcedPrefix)
	if err != nil {
		return fault.New(fault.KindOf(err), "what nodes have reported about policies: %w", err)
	}
	var forgotten []string
	err = c.ledger.View(func(r ledger.Reader) error {
		homes := hostsWithEndpoints(r)
		for _, kv := range said {
			host := strings.TrimPrefix(kv.Key, mastercfg.K8sEnforcedPrefix)
			_, noted := r.Get(mastercfg.NodeGCPrefix + host)
			if !noted && !isRegistered(r, host) && !slices.Contains(homes, host) {
				forgotten = append(forgotten, host)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var failed []error
	for _, host := range forgotten {
		failed = append(failed, c.dropReported(ctx, host))
	}
	return errors.Join(failed...)
}

// dropEndpoints deletes the reports of a node about endpoints that are gone: freed by an operator, or by a
// collection that was interrupted.
func (c *NodeCollector) dropEndpoints(ctx context.Context, host string) error {
	if !c.listed {
		all, _, err := c.reports.List(ctx, mastercfg.OperEndpointPrefix)
		if err != nil {
			return fault.New(fault.KindOf(err), "endpoints that node %s has reported: %w", host, err)
		}
		c.reported, c.listed = all, true
	}
	var failed []error
	for _, kv := range c.reported {
		var said mastercfg.OperEndpointState
		if json.Unmarshal(kv.Value, &said) == nil && said.HomingHost == host {
			id := strings.TrimPrefix(kv.Key, mastercfg.OperEndpointPrefix)
			failed = append(failed, c.drop(ctx, kv.Key, objdb.Absent(mastercfg.EndpointPrefix+id)))
		}
	}
	return errors.Join(failed...)
}

// drop deletes a report of an agent that is gone, if the guards hold.
func (c *NodeCollector) drop(ctx context.Context, key string, guards ...objdb.Guard) error {
	_, _, err := c.reports.Txn(ctx, objdb.Txn{If: guards, Deletes: []string{key}})
	if err != nil {
		return fault.New(fault.KindOf(err), "delete %s: %w", key, err)
	}
	return nil
}

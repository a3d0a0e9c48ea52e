package master

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Reports is how what agents have reported is deleted: a transaction that fails
// once the term is over.
type Reports interface {
	Txn(ctx context.Context, t objdb.Txn) (rev int64, ok bool, err error)
}

// NodeCollector frees the endpoints of nodes that went away for good.
//
// A node with endpoints whose agent is not registered gets a record with the time
// that is left to it. Only the time counts during which a leader has seen the
// node gone, by its own clock's progress: leaders whose clocks differ, or one
// whose clock is set, free nothing early. The record is written again now and
// then, so that a change of leader costs a small part of the time at most.
//
// A node that comes back loses the record; when the time is over first, its
// endpoints are deleted, a few in each transaction, and the record goes last, so
// that an interrupted collection is taken up again. The ledger follows the
// registry, which each of these transactions reads: a node that comes back at
// that moment keeps what it still has.
type NodeCollector struct {
	ledger   Ledger
	reports  Reports
	cooldown *Cooldown
	grace    time.Duration
	log      *logrus.Entry
	gone     map[string]countdown // nodes this leader sees gone, by host label
}

// countdown is the time left to a node at a moment of this process.
type countdown struct {
	left time.Duration
	at   time.Time // with the reading of the monotonic clock
}

func (c countdown) leftAt(now time.Time) time.Duration { return c.left - now.Sub(c.at) }

// parts is into how many steps the time of a node is divided in its record.
const parts = 24

// freedAtOnce is how many endpoints are deleted in one transaction.
const freedAtOnce = 32

// NewNodeCollector makes the collector of a term, which tells cooldown what it frees.
func NewNodeCollector(ledger Ledger, reports Reports, cooldown *Cooldown, grace time.Duration, log *logrus.Entry) *NodeCollector {
	return &NodeCollector{ledger, reports, cooldown, grace, log.WithField("component", "nodegc"), map[string]countdown{}}
}

// Sweep looks at all nodes once.
func (c *NodeCollector) Sweep(ctx context.Context, now time.Time) error {
	var missing []string
	var records []mastercfg.NodeGC
	err := c.ledger.View(func(r ledger.Reader) (err error) {
		records, err = ledger.ReadAll[mastercfg.NodeGC](r, mastercfg.NodeGCPrefix)
		for _, host := range hostsWithEndpoints(r) {
			if !registered(r, host) {
				missing = append(missing, host)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	noted := map[string]mastercfg.NodeGC{}
	for _, record := range records {
		noted[record.ID] = record
	}
	still := map[string]countdown{}
	for _, host := range missing {
		record, known := noted[host]
		delete(noted, host)
		left, err := c.countDown(ctx, record, known, host, now)
		if err != nil {
			return err
		}
		if left.leftAt(now) > 0 {
			still[host] = left
		} else if err := c.collect(ctx, host); err != nil {
			return err
		}
	}
	c.gone = still
	for host := range noted {
		if err := c.forget(ctx, host); err != nil {
			return err
		}
	}
	return nil
}

// countDown is the time left to a node, which it notes at first and then whenever
// a part of it has passed.
func (c *NodeCollector) countDown(ctx context.Context, record mastercfg.NodeGC, known bool, host string, now time.Time) (countdown, error) {
	stored, err := time.ParseDuration(record.Remaining)
	if !known || err != nil {
		record, stored = mastercfg.NodeGC{ID: host, DownSince: now.UTC().Format(time.RFC3339)}, c.grace
	}
	left, seen := c.gone[host]
	if !seen {
		left = countdown{min(stored, c.grace), now}
	}
	if known && err == nil && stored-left.leftAt(now) < c.grace/parts {
		return left, nil
	}
	record.Remaining = max(0, left.leftAt(now)).String()
	record.Deadline = now.Add(left.leftAt(now)).UTC().Format(time.RFC3339)
	_, err = c.ledger.Update(ctx, func(tx *ledger.Tx) error { return ledger.Write(tx, mastercfg.NodeGCPrefix+host, record) })
	if err == nil && !known {
		c.log.WithFields(logrus.Fields{"host": host, "deadline": record.Deadline}).Warn("node with endpoints is not registered")
	}
	return left, err
}

// forget ends the time of a node that is back, or has no endpoints any more.
func (c *NodeCollector) forget(ctx context.Context, host string) error {
	_, err := c.ledger.Update(ctx, func(tx *ledger.Tx) error {
		tx.Delete(mastercfg.NodeGCPrefix + host)
		return nil
	})
	if err == nil {
		c.log.WithField("host", host).Info("node is back, or has no endpoints any more")
	}
	return err
}

// collect deletes the endpoints of a node whose time is over.
func (c *NodeCollector) collect(ctx context.Context, host string) error {
	freed := 0
	for {
		var ids []string
		var deleted []mastercfg.CfgEndpointState
		back := false
		_, err := c.ledger.Update(ctx, func(tx *ledger.Tx) error {
			if ids, deleted, back = nil, nil, registered(tx, host); back {
				return nil
			}
			found(tx, hostTerm+host, func(key string) bool {
				ids = append(ids, key[len(mastercfg.EndpointPrefix):])
				return len(ids) < freedAtOnce
			})
			for _, id := range ids {
				ep, err := DeleteEndpoint(tx, id)
				if ignoreNotFound(err) != nil {
					return err
				}
				deleted = append(deleted, ep)
			}
			if len(ids) == 0 {
				tx.Delete(mastercfg.NodeGCPrefix + host)
			}
			return nil
		})
		if err != nil || back {
			return err // the next sweep forgets the record
		}
		for i := range deleted {
			c.cooldown.Freed(&deleted[i])
		}
		for _, id := range ids {
			// The same endpoint may have been made again, and be reported.
			if err := c.drop(ctx, mastercfg.OperEndpointPrefix+id, objdb.Absent(mastercfg.EndpointPrefix+id)); err != nil {
				return err
			}
		}
		if freed += len(ids); len(ids) == 0 {
			break
		}
	}
	c.log.WithFields(logrus.Fields{"host": host, "endpoints": freed}).Warn("endpoints of a lost node freed")
	return c.dropSwitch(ctx, host)
}

// dropSwitch deletes what the agent of a node has reported of its switch, unless
// it comes back.
func (c *NodeCollector) dropSwitch(ctx context.Context, host string) error {
	var guards []objdb.Guard
	back := false
	err := c.ledger.View(func(r ledger.Reader) error {
		back = registered(r, host)
		for _, prefix := range registries {
			guards = append(guards, objdb.RangeNotAfter(prefix, objdb.PrefixEnd(prefix), r.Snapshot(prefix)))
		}
		return nil
	})
	if err != nil || back {
		return err
	}
	return errors.Join(c.drop(ctx, mastercfg.OvsDriverPrefix+host, guards...), c.drop(ctx, mastercfg.K8sEnforcedKey(host), guards...))
}

// drop deletes what an agent that is gone had reported, if the guards hold.
func (c *NodeCollector) drop(ctx context.Context, key string, guards ...objdb.Guard) error {
	_, _, err := c.reports.Txn(ctx, objdb.Txn{If: guards, Deletes: []string{key}})
	if err != nil {
		return fault.New(fault.KindOf(err), "delete %s: %w", key, err)
	}
	return nil
}

// registries are where agents are registered.
var registries = []string{
	objdb.ServicePrefix + mastercfg.AgentVTEPService + "/", objdb.ServicePrefix + mastercfg.AgentService + "/",
}

// registered tells whether the agent of a node is registered. In a plan the
// answer is guarded: it fails when somebody registers meanwhile.
func registered(r ledger.Reader, host string) (alive bool) {
	for _, prefix := range registries {
		r.Range(prefix, func(string, []byte) bool { return true }) // for the guard
	}
	found(r, agentTerm+host, func(string) bool {
		alive = true
		return false
	})
	return alive
}

// hostsWithEndpoints are the host labels that endpoints have, in order.
func hostsWithEndpoints(r ledger.Reader) []string {
	var hosts []string
	for from := ""; ; {
		next := ""
		r.Search(hostTerm, from, func(term, _ string) bool {
			next = term
			return false
		})
		if next == "" {
			return hosts
		}
		hosts = append(hosts, next[len(hostTerm):])
		from = next + "\x00"
	}
}

// EndpointsPerHost counts the endpoints of each host.
func EndpointsPerHost(r ledger.Reader) map[string]int {
	count := map[string]int{}
	r.Search(hostTerm, "", func(term, _ string) bool {
		count[strings.TrimPrefix(term, hostTerm)]++
		return true
	})
	return count
}

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

// NodeCollector frees the endpoints of nodes that are gone for good.
//
// A node with endpoints whose agent is not registered gets a record with its remaining time. Only the time
// during which a leader has seen the node gone counts, by the progress of the leader's own clock: leaders whose
// clocks differ, or one whose clock is set, free nothing early. The record is updated now and then, so that a
// change of leader costs a small part of the time at most.
//
// The record of a node that returns is deleted. If the time is over first, the node's endpoints are deleted, a few
// in each transaction, and the record last, so that an interrupted collection is resumed. The ledger follows the
// registry, which each of these transactions reads: a node that returns at that moment keeps its remaining
// endpoints.
type NodeCollector struct {
	ledger   Ledger
	reports  Reports
	cooldown *Cooldown
	grace    time.Duration
	log      *logrus.Entry
	gone     map[string]countdown // nodes this leader sees gone, by host label
	reported []objdb.KV           // by all agents about endpoints, listed when first needed in this sweep
	listed   bool
}

// countdown is the time left to a node at a moment of this process.
type countdown struct {
	left time.Duration
	at   time.Time // with the reading of the monotonic clock
}

func (c countdown) leftAt(now time.Time) time.Duration { return c.left - now.Sub(c.at) }

// parts is the number of steps in which the time of a node is counted down in its record.
const parts = 24

// freedAtOnce is how many endpoints are deleted in one transaction.
const freedAtOnce = 32

// NewNodeCollector makes the collector of a term, which reports freed endpoints to cooldown.
func NewNodeCollector(ledger Ledger, reports Reports, cooldown *Cooldown, grace time.Duration, log *logrus.Entry) *NodeCollector {
	return &NodeCollector{
		ledger: ledger, reports: reports, cooldown: cooldown, grace: grace, log: log.WithField("component", "nodegc"),
		gone: map[string]countdown{},
	}
}

// Sweep checks all nodes once. A failure at one delays no other, and the time of all of them passes,
// whether or not it can be recorded.
func (c *NodeCollector) Sweep(ctx context.Context, now time.Time) error {
	defer func() { c.reported, c.listed = nil, false }()
	var missing []string
	var records []mastercfg.NodeGC
	err := c.ledger.View(func(r ledger.Reader) (err error) {
		records, err = ledger.ReadAll[mastercfg.NodeGC](r, mastercfg.NodeGCPrefix)
		for _, host := range hostsWithEndpoints(r) {
			if !isRegistered(r, host) {
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
		still[host] = c.countDown(noted[host], host, now)
	}
	c.gone = still
	var failed []error
	for _, host := range missing {
		failed = append(failed, c.writeLeft(ctx, noted[host], host, now))
		delete(noted, host)
		if still[host].leftAt(now) > 0 {
			continue
		}
		err := c.collect(ctx, host)
		if err == nil {
			delete(still, host)
		}
		failed = append(failed, err)
	}
	for _, record := range noted {
		if !wasJustRemoved(record, now) {
			failed = append(failed, c.forget(ctx, record))
		}
	}
	return errors.Join(append(failed, c.dropForgotten(ctx))...)
}

// countDown returns the time left to a node: that of its record at first, and whenever the record has
// less; zero for a removed node.
func (c *NodeCollector) countDown(record mastercfg.NodeGC, host string, now time.Time) countdown {
	stored, err := time.ParseDuration(record.Remaining)
	if err != nil {
		stored = c.grace
	}
	if left, seen := c.gone[host]; seen && left.leftAt(now) <= stored {
		return left
	}
	return countdown{min(stored, c.grace), now}
}

// writeLeft records the time left to a node, at first and then whenever a part of it has passed.
func (c *NodeCollector) writeLeft(ctx context.Context, record mastercfg.NodeGC, host string, now time.Time) error {
	since, left := c.gone[host].at, c.gone[host].leftAt(now)
	stored, unknown := time.ParseDuration(record.Remaining)
	if unknown == nil && stored-left < c.grace/parts {
		return nil
	}
	before := record
	if unknown != nil {
		record = mastercfg.NodeGC{ID: host, DownSince: since.UTC().Format(time.RFC3339)}
	}
	record.Remaining = max(0, left).String()
	record.Deadline = now.Add(left).UTC().Format(time.RFC3339)
	_, err := c.ledger.Update(ctx, func(tx *ledger.Tx) error {
		if same, err := isRecorded(tx, host, before); err != nil || !same {
			return err // it was removed meanwhile
		}
		return ledger.Write(tx, mastercfg.NodeGCPrefix+host, record)
	})
	if err != nil {
		return fault.New(fault.KindOf(err), "time of node %s: %w", host, err)
	}
	if unknown != nil {
		c.log.WithFields(logrus.Fields{"host": host, "deadline": record.Deadline}).Warn("node with endpoints is not registered")
	}
	return nil
}

// isRecorded reports whether the record of a node is still the one that was read; the empty one means none.
func isRecorded(r ledger.Reader, host string, record mastercfg.NodeGC) (bool, error) {
	present, err := ledger.Read[mastercfg.NodeGC](r, mastercfg.NodeGCPrefix+host)
	return present == record, ignoreNotFound(err)
}

// forget deletes the record of a node that is back or has no endpoints any more; of the latter the
// reports of its agent are deleted, too.
func (c *NodeCollector) forget(ctx context.Context, record mastercfg.NodeGC) error {
	if err := c.dropReported(ctx, record.ID); err != nil {
		return err // it is retried while the record exists
	}
	_, err := c.ledger.Update(ctx, func(tx *ledger.Tx) error {
		same, err := isRecorded(tx, record.ID, record)
		if same {
			tx.Delete(mastercfg.NodeGCPrefix + record.ID)
		}
		return err
	})
	if err != nil {
		return fault.New(fault.KindOf(err), "time of node %s: %w", record.ID, err)
	}
	c.log.WithField("host", record.ID).Info("node is back, or has no endpoints any more")
	return nil
}

// collect deletes the endpoints of a node whose time is over. If one cannot be deleted, the record and the
// agent's reports remain, but no other endpoint does.
func (c *NodeCollector) collect(ctx context.Context, host string) error {
	freed := 0
	var failed []error
	stuck := map[string]bool{}
	for {
		some, err := c.freeSome(ctx, host, stuck)
		if err != nil {
			failed = append(failed, fault.New(fault.KindOf(err), "lost node %s: %w", host, err))
			if some.refused == "" {
				return errors.Join(failed...)
			}
			stuck[some.refused] = true
			continue
		}
		if some.back {
			return errors.Join(failed...) // the next sweep forgets the record
		}
		for i := range some.deleted {
			c.cooldown.Freed(&some.deleted[i])
		}
		for _, id := range some.ids {
			// The same endpoint may have been created and reported again.
			failed = append(failed, c.drop(ctx, mastercfg.OperEndpointPrefix+id, objdb.Absent(mastercfg.EndpointPrefix+id)))
		}
		if freed += len(some.ids); len(some.ids) == 0 {
			break
		}
	}
	if len(stuck) > 0 {
		return errors.Join(failed...)
	}
	c.log.WithFields(logrus.Fields{"host": host, "endpoints": freed}).Warn("endpoints of a lost node freed")
	return errors.Join(append(failed, c.end(ctx, host))...)
}

// freedSome is the result of a transaction that deletes some endpoints of a node.
type freedSome struct {
	back    bool     // the node is registered again: nothing was deleted
	ids     []string // of the endpoints
	deleted []mastercfg.CfgEndpointState
	refused string // id of the endpoint that could not be deleted, so that nothing was
}

// freeSome deletes some endpoints of a node in one transaction, except those that are stuck.
func (c *NodeCollector) freeSome(ctx context.Context, host string, stuck map[string]bool) (some freedSome, err error) {
	_, err = c.ledger.Update(ctx, func(tx *ledger.Tx) error {
		some = freedSome{back: isRegistered(tx, host)}
		if some.back {
			return nil
		}
		found(tx, hostTerm+host, func(key string) bool {
			if id := key[len(mastercfg.EndpointPrefix):]; !stuck[id] {
				some.ids = append(some.ids, id)
			}
			return len(some.ids) < freedAtOnce
		})
		for _, id := range some.ids {
			ep, err := DeleteEndpoint(tx, id)
			if ignoreNotFound(err) != nil {
				some.refused = id
				return fault.New(fault.KindOf(err), "endpoint %s: %w", id, err)
			}
			some.deleted = append(some.deleted, ep)
		}
		return nil
	})
	return some, err
}

// end deletes the reports of a node without endpoints, and then its record, by which the node is found until then.
func (c *NodeCollector) end(ctx context.Context, host string) error {
	if err := c.dropReported(ctx, host); err != nil {
		return err
	}
	_, err := c.ledger.Update(ctx, func(tx *ledger.Tx) error {
		if !isRegistered(tx, host) {
			tx.Delete(mastercfg.NodeGCPrefix + host)
		}
		return nil
	})
	if err != nil {
		return fault.New(fault.KindOf(err), "time of node %s: %w", host, err)
	}
	return nil
}

// registries are the prefixes of agents' registrations.
var registries = []string{
	objdb.ServicePrefix + mastercfg.AgentVTEPService + "/", objdb.ServicePrefix + mastercfg.AgentService + "/",
}

// isRegistered reports whether the agent of a node is registered. In a plan the answer is guarded: the
// transaction fails if the agent registers meanwhile.
func isRegistered(r ledger.Reader, host string) (alive bool) {
	for _, prefix := range registries {
		r.Range(prefix, func(string, []byte) bool { return true }) // for the guard
	}
	found(r, agentTerm+host, func(string) bool {
		alive = true
		return false
	})
	return alive
}

// hostsWithEndpoints returns the host labels of endpoints, in order.
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

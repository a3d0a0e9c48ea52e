package master

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// NodeStore is the part of the store that agents write.
type NodeStore interface {
	Services(ctx context.Context, name string) ([]objdb.Service, error)
	Txn(ctx context.Context, t objdb.Txn) (rev int64, ok bool, err error)
}

// NodeCollector frees the endpoints of nodes that went away for good.
//
// A node whose agent is not registered gets a record with a deadline, which
// survives changes of leader. A node that comes back loses the record; when
// the deadline passes first, its endpoints are deleted one by one, and the
// record goes last, so that an interrupted collection is taken up again.
type NodeCollector struct {
	ledger Ledger
	store  NodeStore
	grace  time.Duration
	log    *logrus.Entry
}

// NewNodeCollector makes the collector of a term.
func NewNodeCollector(ledger Ledger, store NodeStore, grace time.Duration, log *logrus.Entry) *NodeCollector {
	return &NodeCollector{ledger, store, grace, log.WithField("component", "nodegc")}
}

// Sweep looks at all nodes once.
func (c *NodeCollector) Sweep(ctx context.Context, now time.Time) error {
	alive, err := c.registered(ctx)
	if err != nil {
		return err
	}
	var endpoints map[string][]string
	var records []mastercfg.NodeGC
	err = c.ledger.View(func(r ledger.Reader) (err error) {
		if endpoints, err = endpointsByHost(r); err == nil {
			records, err = ledger.ReadAll[mastercfg.NodeGC](r, mastercfg.NodeGCPrefix)
		}
		return err
	})
	if err != nil {
		return err
	}
	noted := map[string]bool{}
	for _, record := range records {
		noted[record.ID] = true
		deadline, err := time.Parse(time.RFC3339, record.Deadline)
		switch host := record.ID; {
		case alive[host] || len(endpoints[host]) == 0:
			err = c.forget(ctx, host, alive[host])
		case err != nil:
			err = c.note(ctx, host, now) // unreadable: the time begins again
		case !now.Before(deadline):
			err = c.collect(ctx, record, endpoints[host])
		}
		if err != nil {
			return err
		}
	}
	for host := range endpoints {
		if noted[host] || alive[host] {
			continue
		}
		if err := c.note(ctx, host, now); err != nil {
			return err
		}
	}
	return nil
}

// registered are the host labels of agents that are alive.
func (c *NodeCollector) registered(ctx context.Context) (map[string]bool, error) {
	alive := map[string]bool{}
	for _, name := range []string{mastercfg.AgentVTEPService, mastercfg.AgentService} {
		services, err := c.store.Services(ctx, name)
		if err != nil {
			return nil, err
		}
		for _, s := range services {
			alive[s.Hostname] = true
		}
	}
	return alive, nil
}

func endpointsByHost(r ledger.Reader) (map[string][]string, error) {
	byHost := map[string][]string{}
	err := each(r, mastercfg.EndpointPrefix, func(_ string, ep mastercfg.CfgEndpointState) error {
		if ep.HomingHost != "" {
			byHost[ep.HomingHost] = append(byHost[ep.HomingHost], ep.ID)
		}
		return nil
	})
	return byHost, err
}

// EndpointsPerHost counts the endpoints of each host.
func EndpointsPerHost(r ledger.Reader) (map[string]int, error) {
	count := map[string]int{}
	err := each(r, mastercfg.EndpointPrefix, func(_ string, ep struct{ HomingHost string }) error {
		if ep.HomingHost != "" {
			count[ep.HomingHost]++
		}
		return nil
	})
	return count, err
}

// note begins the time of a node.
func (c *NodeCollector) note(ctx context.Context, host string, now time.Time) error {
	record := mastercfg.NodeGC{ID: host, DownSince: now.UTC().Format(time.RFC3339), Deadline: now.Add(c.grace).UTC().Format(time.RFC3339)}
	_, err := c.ledger.Update(ctx, func(tx *ledger.Tx) error { return ledger.Write(tx, mastercfg.NodeGCPrefix+host, record) })
	if err == nil {
		c.log.WithFields(logrus.Fields{"host": host, "deadline": record.Deadline}).Warn("node with endpoints is not registered")
	}
	return err
}

// forget ends the time of a node.
func (c *NodeCollector) forget(ctx context.Context, host string, back bool) error {
	_, err := c.ledger.Update(ctx, func(tx *ledger.Tx) error {
		tx.Delete(mastercfg.NodeGCPrefix + host)
		return nil
	})
	if err == nil && back {
		c.log.WithField("host", host).Info("node is back")
	}
	return err
}

// collect deletes the endpoints of a node whose time is over.
func (c *NodeCollector) collect(ctx context.Context, record mastercfg.NodeGC, ids []string) error {
	for _, id := range ids {
		alive, err := c.registered(ctx)
		if err != nil || alive[record.ID] {
			return err // the next sweep forgets the record
		}
		_, err = c.ledger.Update(ctx, func(tx *ledger.Tx) error {
			if _, still := tx.Get(mastercfg.NodeGCPrefix + record.ID); !still {
				return nil
			}
			_, err := DeleteEndpoint(tx, id)
			return ignoreNotFound(err)
		})
		if err != nil {
			return err
		}
		if err := c.dropReports(ctx, mastercfg.OperEndpointPrefix+id); err != nil {
			return err
		}
	}
	c.log.WithFields(logrus.Fields{"host": record.ID, "endpoints": len(ids), "downSince": record.DownSince}).Warn("endpoints of a lost node freed")
	if err := c.dropReports(ctx, mastercfg.OvsDriverPrefix+record.ID); err != nil {
		return err
	}
	return c.forget(ctx, record.ID, false)
}

// dropReports deletes what an agent that is gone had reported.
func (c *NodeCollector) dropReports(ctx context.Context, key string) error {
	_, _, err := c.store.Txn(ctx, objdb.Txn{Deletes: []string{key}})
	if err != nil {
		return fault.New(fault.KindOf(err), "delete %s: %w", key, err)
	}
	return nil
}

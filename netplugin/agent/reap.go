package agent

import (
	"context"
	"sync"
	"time"

	"github.com/contiv/netplugin/drivers"
)

// reapTimeout bounds the removal of one port.
const reapTimeout = 10 * time.Second

// orphans times how long ports have been without an endpoint in the store.
type orphans struct {
	grace time.Duration
	mu    *sync.Mutex
	since map[string]time.Time // endpoint id -> first seen without a record
}

func newOrphans(grace time.Duration) orphans {
	return orphans{grace, new(sync.Mutex), make(map[string]time.Time)}
}

// judge returns the ports whose grace is over, and how long until the next one's is; 0: there is none.
func (o orphans) judge(ports []drivers.Port, hasRecord func(epID string) bool, now time.Time) (due []string, next time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	since := make(map[string]time.Time)
	for _, port := range ports {
		id := port.EndpointID
		if hasRecord(id) {
			continue
		}
		first, seen := o.since[id]
		if !seen {
			first = now
		}
		since[id] = first
		switch rest := o.grace - now.Sub(first); {
		case rest <= 0:
			due = append(due, id)
		case next == 0 || rest < next:
			next = rest
		}
	}
	clear(o.since)
	for id, first := range since {
		o.since[id] = first
	}
	return due, next
}

// forgive starts the grace of a port anew: somebody is working with it.
func (o orphans) forgive(epID string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.since, epID)
}

// condemned tells whether nobody forgave a port since it was judged.
func (o orphans) condemned(epID string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, seen := o.since[epID]
	return seen
}

// reap removes ports whose endpoint is not (or no longer) one of this node:
// left over from a time when the agent was down, or given up by netmaster.
func (a *Agent) reap(ctx context.Context) error {
	if err := a.inSync.await(ctx); err != nil {
		return err
	}
	for {
		due, next := a.orphans.judge(a.cfg.Driver.Ports(), a.isLocal, time.Now())
		for _, epID := range due {
			a.reapPort(ctx, epID)
		}
		if next == 0 || next > a.cfg.ReapInterval {
			next = a.cfg.ReapInterval
		}
		if err := pause(ctx, next); err != nil {
			return err
		}
	}
}

func (a *Agent) reapPort(ctx context.Context, epID string) {
	unlock, _ := a.ports.Try(epID)
	if unlock == nil {
		return // somebody works with it
	}
	defer unlock()
	if !a.orphans.condemned(epID) || a.isLocal(epID) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reapTimeout)
	defer cancel()
	log := a.log.WithField("endpoint", epID)
	if err := a.cfg.Driver.RemovePort(ctx, epID); err != nil {
		log.WithError(err).Warn("port without an endpoint could not be removed, trying again later")
		return
	}
	log.Info("removed a port whose endpoint is not in the store")
	a.orphans.forgive(epID)
	a.metrics.reaped.Inc()
	a.report.raise()
}

// isLocal tells whether the store has the endpoint on this node.
func (a *Agent) isLocal(epID string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, known := a.cache.endpoints[epID]
	return known && e.host == a.cfg.HostLabel
}

package agent

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// reapTimeout bounds the removal of one port.
const reapTimeout = 10 * time.Second

// orphans measures how long endpoints have been without their owner.
type orphans struct {
	grace time.Duration
	since map[string]time.Time // endpoint id -> when it was first seen without
}

func newOrphans(grace time.Duration) orphans {
	return orphans{grace, make(map[string]time.Time)}
}

// expired returns the endpoints whose grace period is over, and the time until the next one's ends; 0: none does.
func (o orphans) expired(ids []string, belongs func(epID string) bool, now time.Time) (due []string, next time.Duration) {
	alone := make(map[string]time.Time)
	for _, id := range ids {
		if belongs(id) {
			continue
		}
		first, seen := o.since[id]
		if !seen {
			first = now
		}
		alone[id] = first
		switch rest := o.grace - now.Sub(first); {
		case rest <= 0:
			due = append(due, id)
		case next == 0 || rest < next:
			next = rest
		}
	}
	clear(o.since)
	maps.Copy(o.since, alone)
	return due, next
}

// reaper removes ports that nothing in this process claims and whose endpoint the store does not have on this
// node: they are left over from a time when the agent was down. The port of a running pod stays: its checkpoint
// may be lost, and its endpoint with a rewound store.
//
// Its loop also finds the opposite, endpoints of this node without a claim, for Unclaimed.
type reaper struct {
	agent   *Agent
	orphans orphans         // ports without an owner
	spared  map[string]bool // those of them that are left to a pod, and have been logged
}

func newReaper(a *Agent) *reaper {
	return &reaper{agent: a, orphans: newOrphans(a.cfg.ReapGrace), spared: make(map[string]bool)}
}

// run works until ctx is done. It begins when the switch has all wanted objects.
func (r *reaper) run(ctx context.Context) error {
	a := r.agent
	if err := a.inSync.await(ctx); err != nil {
		return err
	}
	for {
		next := a.cfg.ReapInterval
		if a.cfg.Driver.Status().Connected { // otherwise its ports are not known
			ports := a.portsByID()
			due, soon := r.orphans.expired(slices.Sorted(maps.Keys(ports)), a.owned, time.Now())
			maps.DeleteFunc(r.spared, func(epID string, _ bool) bool { return !slices.Contains(due, epID) })
			for _, epID := range due {
				r.remove(ctx, ports[epID])
			}
			if soon > 0 {
				next = min(next, soon)
			}
			if len(r.spared) > 0 { // the end of the pod is not reported to us
				next = min(next, a.cfg.ReapGrace)
			}
		}
		if soon := a.findUnclaimed(time.Now()); soon > 0 {
			next = min(next, soon)
		}
		if retry.Pause(ctx, next); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// portsByID returns the ports in the switch by their endpoints.
func (a *Agent) portsByID() map[string]drivers.Port {
	ports := make(map[string]drivers.Port)
	for _, port := range a.cfg.Driver.Ports() {
		ports[port.EndpointID] = port
	}
	return ports
}

// remove removes a port, unless it has an owner or a pod uses it.
func (r *reaper) remove(ctx context.Context, port drivers.Port) {
	a, epID := r.agent, port.EndpointID
	unlock, _ := a.ports.Try(epID)
	if unlock == nil {
		return // in use by PreparePort or Detach
	}
	defer unlock()
	if a.owned(epID) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reapTimeout)
	defer cancel()
	log := a.log.WithField("endpoint", epID)
	used, err := a.cfg.Driver.PortUsed(epID)
	if err != nil {
		log.WithError(err).Warn("it is not known whether a pod uses a port without an endpoint, trying again later")
		return
	}
	if used {
		if !r.spared[epID] {
			log.WithField("link", port.HostLink).Error("a pod uses a port that nobody holds and whose endpoint is not in the store; it is removed when the pod is gone")
		}
		r.spared[epID] = true
		return
	}
	if err := a.cfg.Driver.RemovePort(ctx, epID); err != nil {
		log.WithError(err).Warn("port without an endpoint could not be removed, trying again later")
		return
	}
	log.Info("removed a port that nobody holds and whose endpoint is not in the store")
	a.metrics.reaped.Inc()
	a.report.Send()
}

// owned reports whether a port is claimed, or the store has its endpoint on this node. The port to the host is
// owned as long as one is wanted: after a start, its creation may be delayed.
func (a *Agent) owned(epID string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, claimed := a.held.claimed[epID]; claimed {
		return true
	}
	if epID == OutsideID {
		_, err := a.cache.hostPort()
		return !fault.Is(err, fault.NotFound)
	}
	e, known := a.cache.endpoints[epID]
	return known && e.host == a.cfg.HostLabel
}

// findUnclaimed finds the endpoints that the store has on this node and nothing claims. It returns the time
// until another grace period ends; 0: none does.
func (a *Agent) findUnclaimed(now time.Time) (next time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	claimed := func(epID string) bool {
		_, claimed := a.held.claimed[epID]
		return claimed
	}
	a.held.unclaimed, next = a.held.alone.expired(slices.Sorted(maps.Keys(a.cache.endpointsOn[a.cfg.HostLabel])), claimed, now)
	return next
}

// storedHere reports whether a key is that of an endpoint of this node that the store has, as far as the cache
// shows. The caller holds the lock.
func (a *Agent) storedHere(key string) bool {
	id, is := strings.CutPrefix(key, mastercfg.EndpointPrefix)
	if !is {
		return false
	}
	e, known := a.cache.endpoints[id]
	_, absent := a.held.absent[key]
	return known && !absent && e.host == a.cfg.HostLabel
}

// returned records an endpoint of this node that has reappeared with a rewound store: it was deleted since, and
// does not wait for SweepGrace. Until it is deleted again, a container that was assigned its address meanwhile
// cannot be announced, on this node or another. The caller holds the lock.
func (a *Agent) returned(id string) {
	a.held.alone.since[id] = time.Now().Add(-a.cfg.SweepGrace)
	a.held.unclaimed = append(a.held.unclaimed, id)
}

// Unclaimed lists the endpoints that the store has on this node although nothing has claimed
// them since this process started, or for SweepGrace; at once those that were attached in an
// earlier boot, or have reappeared with a rewound store. The caller has the record of
// containers and decides whether one uses the endpoint; the port is set if it exists.
//
// The list is empty while another node has this node's label, and for SweepGrace after that: a copy of this
// machine's disk has its boots and ports, but not its containers.
func (a *Agent) Unclaimed(ended func(boot string) bool) []Attachment {
	ports := a.portsByID()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.followsStore() {
		return nil
	}
	now := time.Now()
	if a.cache.hasDuplicateLabel() {
		a.held.twinSeen = now
	}
	if !a.held.twinSeen.IsZero() && now.Sub(a.held.twinSeen) < a.cfg.SweepGrace {
		return nil
	}
	var found []Attachment
	for id := range a.cache.endpointsOn[a.cfg.HostLabel] {
		e := a.cache.endpoints[id]
		if _, claimed := a.held.claimed[id]; claimed || !ended(e.record.Boot) && !slices.Contains(a.held.unclaimed, id) {
			continue
		}
		found = append(found, Attachment{Port: ports[id], Endpoint: *e.record, Network: a.cache.networks[e.netID].record})
	}
	return found
}

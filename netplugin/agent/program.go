package agent

import (
	"context"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// missing returns what the first complete state still lacks; nil: nothing. An empty store that no netmaster has
// configured is not a state: applying it would empty the switch.
func (a *Agent) missing() error {
	for _, m := range a.mirrors {
		if err := m.Unreadable(); err != nil && !m.complete {
			return fault.New(fault.Unavailable, "%s has not been read from the store yet: %w", m.prefix, err)
		}
		if !m.complete {
			return fault.New(fault.Unavailable, "%s has not been read from the store yet", m.prefix)
		}
	}
	if !a.cache.globalKnown() {
		return fault.New(fault.Unavailable, "global configuration %s is not in the store yet", mastercfg.GlobalConfigKey)
	}
	return a.renamed()
}

// program passes the first complete state to the driver, and then every change.
func (a *Agent) program(ctx context.Context) error {
	if err := a.awaitFirstState(ctx); err != nil {
		return err
	}
	if a.cfg.Shown {
		if err := a.awaitAnnounced(ctx); err != nil {
			return err
		}
	}
	a.agePeerKeys(ctx)
	a.recallPeers(ctx)
	objects, err := a.programFirst()
	if err != nil {
		return err
	}
	a.log.WithField("objects", objects).Info("first state complete")
	a.given.Send()
	a.report.Send()
	a.serving.raise()
	expiry := time.NewTimer(0)
	defer expiry.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.changed:
		case <-expiry.C:
		}
		if next := a.dropExpired(time.Now()); next > 0 {
			expiry.Reset(next)
		}
		a.programDirty()
	}
}

// programFirst passes the whole state to the driver, and returns the number of its objects.
func (a *Agent) programFirst() (objects int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.recallHeld(); err != nil {
		return 0, err
	}
	a.started, a.cache.hostDirty = true, true // the host waits until all tunnel addresses are known
	a.wakeHost()
	a.updateBorder()
	change, _ := a.planner.plan(a.cache, everything)
	change.Replace, change.Known = true, a.existing()
	a.cfg.Driver.Update(change)
	return len(change.Set), nil
}

// awaitFirstState waits without limit, and logs from time to time what is missing.
func (a *Agent) awaitFirstState(ctx context.Context) error {
	wait := retry.NewPacer(time.Second, time.Minute)
	timer := time.NewTimer(wait.Next())
	defer timer.Stop()
	for {
		a.mu.Lock()
		err := a.missing()
		a.mu.Unlock()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.changed:
		case <-timer.C:
			a.log.WithError(err).Info("waiting for the first complete state; the switch keeps what it has")
			timer.Reset(wait.Next())
		}
	}
}

// awaitAnnounced waits for a while until the store has the endpoints of the containers attached here, which the
// CNI server announces. Without them a netmaster does not show the policies of their tenants, and the first
// state would remove these from the switch.
func (a *Agent) awaitAnnounced(ctx context.Context) error {
	patience := time.NewTimer(a.cfg.AnnounceWait)
	defer patience.Stop()
	for told := false; ; told = true {
		a.mu.Lock()
		left := a.missingInStore()
		a.mu.Unlock()
		if len(left) == 0 {
			return nil
		}
		if !told {
			a.log.WithField("endpoints", left).Warn("the store does not have endpoints of containers that are here; until they are announced, the switch keeps what it has")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.changed:
		case <-patience.C:
			a.log.WithField("endpoints", left).Error("endpoints of containers that are here could not be announced; policies that netmasters do not show for their tenants end")
			return nil
		}
	}
}

// programDirty passes the change of the dirty objects to the driver. Attach calls it as well, so that an
// endpoint does not wait for the loop.
func (a *Agent) programDirty() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.started {
		return
	}
	a.updateBorder()
	change, ok := a.planner.plan(a.cache, 0)
	if ok {
		a.cfg.Driver.Update(change)
		a.given.Send()
	}
	if len(a.cache.tenants.backlog) > 0 {
		a.behind.Send()
	}
	if a.cache.localsDirty {
		a.cache.localsDirty = false
		a.report.Send()
	}
}

// The switch programs a portion of the backlog in some tens of milliseconds. The next portion is passed on
// after portionWait at the latest, because the switch may be unreachable.
const (
	everything  = -1
	portion     = 1000
	portionWait = 5 * time.Second
)

// programBacklog programs the backlog in portions. Each waits until the
// switch has the previous one, so that other changes can go between.
func (a *Agent) programBacklog(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.behind:
		}
		for more := true; more && ctx.Err() == nil; {
			var keys []pipeline.Key
			keys, more = a.handOverPortion()
			waiting, cancel := context.WithTimeout(ctx, portionWait)
			if err := a.cfg.Driver.Sync(waiting, keys...); err != nil && len(keys) > 0 {
				a.log.WithError(err).Debug("a portion of endpoints elsewhere is not in the switch yet")
			}
			cancel()
		}
	}
}

// handOverPortion passes a portion of the backlog to the driver. It
// returns the objects that it has set, and whether more are left.
func (a *Agent) handOverPortion() (keys []pipeline.Key, more bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.started {
		return nil, false
	}
	if change, ok := a.planner.plan(a.cache, portion); ok {
		a.cfg.Driver.Update(change)
		a.given.Send()
		for _, object := range change.Set {
			keys = append(keys, object.Key())
		}
	}
	return keys, len(a.cache.tenants.backlog) > 0
}

// confirm waits after each change until the switch has it: the first
// time makes the agent ready, and each one feeds the latency metric.
func (a *Agent) confirm(ctx context.Context) error {
	wait, look := retry.NewPacer(100*time.Millisecond, 10*time.Second), retry.NewPacer(firstLook, lastLook)
	again := time.NewTimer(lastLook)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.given:
			look.Reset()
		case <-again.C:
		}
		again.Stop()
		start, epoch := time.Now(), a.driverEpoch()
		err := a.cfg.Driver.Sync(ctx)
		// A refused object concerns its owners only, and is in the driver's status; the node serves all others,
		// unless the switch has refused all.
		if fault.Is(err, fault.Unavailable) || err != nil && !a.inSync.raised() && a.hasPending() {
			a.log.WithError(err).Warn("switch is not in sync yet")
			a.given.Send()
			wait.Sleep(ctx)
			continue
		}
		wait.Reset()
		a.metrics.sync.Observe(time.Since(start).Seconds())
		if !a.inSync.raised() {
			a.log.Info("switch is in sync")
			a.inSync.raise()
			a.report.Send()
		}
		if settled := a.noteEnforced(ctx, epoch, err); !settled {
			again.Reset(look.Next())
		}
	}
}

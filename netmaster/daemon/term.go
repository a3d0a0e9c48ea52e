package daemon

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/utils/retry"
)

// lead serves one term, until it ends or ctx does. The ledger begins with the state of the standby.
func (d *Daemon) lead(ctx, serving context.Context, term *objdb.Term, standby *ledger.Standby) error {
	working, stop := context.WithCancelCause(term.Context())
	defer stop(nil)
	defer context.AfterFunc(ctx, func() { stop(nil) })()

	var tasks sync.WaitGroup
	err := d.openTerm(working, serving, term, standby, &tasks)
	if err == nil {
		tasks.Go(func() { d.yieldToSecured(working, stop) })
		<-working.Done()
		err = context.Cause(working)
	}
	d.front.follow()
	d.announce()
	stop(nil)
	tasks.Wait()
	if ctx.Err() != nil {
		err = nil
	}
	parting, cancel := context.WithTimeout(context.WithoutCancel(ctx), partingTime)
	defer cancel()
	return errors.Join(err, term.Resign(parting))
}

// openTerm opens the ledger, repairs the state, makes the objects that every cluster has, and begins
// to serve and to monitor the state.
func (d *Daemon) openTerm(ctx, serving context.Context, term *objdb.Term, standby *ledger.Standby, tasks *sync.WaitGroup) error {
	began := time.Now()
	if err := d.values.begin(ctx); err != nil {
		d.log.WithError(err).Warn("the term begins with values as they are")
	}
	opened, err := master.Open(ctx, term, standby, d.space.Admit)
	if err != nil {
		return err
	}
	d.values.learn() // the ledger has read all of them, and status is not requested before this term is served
	log := d.log.WithField("epoch", term.Epoch())
	reconciler := master.NewReconciler(opened, log)
	if err := reconciler.Prepare(ctx); err != nil {
		return err
	}
	if err := d.bootstrap(ctx, opened); err != nil {
		return err
	}
	if err := d.recordFounder(ctx, opened); err != nil { // a full store must not prevent leading
		log.WithError(err).Warn("no record says that this netmaster is one of the cluster: it cannot be removed before the next term")
	}
	if err := errors.Join(d.mode.learn(opened), d.removed.learn(opened)); err != nil {
		return err
	}
	config := d.cfg.API
	config.Epoch, config.Trusted = term.Epoch(), term.Trusted
	served := api.New(opened, d.db, mirror.NewFeed(d.db, mastercfg.ModelRoot), config)
	if err := served.Bootstrap(ctx); err != nil {
		return err
	}
	tasks.Go(func() {
		streaming, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(serving, stop)()
		_ = served.Run(streaming) // the error says that it was stopped
	})
	d.front.lead(served)
	d.announce()
	log.WithField("after", time.Since(began).Round(time.Millisecond)).Info("leading")

	d.startLeaderTasks(ctx, tasks, leadership{
		ledger: opened, model: served, reconciler: reconciler, log: log,
		collector: master.NewNodeCollector(opened, term, served.Cooldown(), d.cfg.NodeGrace, log),
	})
	return nil
}

// leadership is what the tasks of one term work with.
type leadership struct {
	ledger     *ledger.Ledger
	model      *api.API
	reconciler *master.Reconciler
	collector  *master.NodeCollector
	log        *logrus.Entry
}

// startLeaderTasks starts what a leader does all the time: it follows Kubernetes, repairs the state, removes expired
// records, promotes members of the store, encrypts values that are still stored in plain, and frees the endpoints of
// lost nodes.
func (d *Daemon) startLeaderTasks(ctx context.Context, tasks *sync.WaitGroup, l leadership) {
	if d.cfg.Follow != nil {
		tasks.Go(func() { d.follow(ctx, l) })
	}
	tasks.Go(func() { d.keepReconciled(ctx, l) })
	if d.member.secure {
		tasks.Go(func() { d.promote(ctx) })
	}
	if d.values != nil {
		tasks.Go(func() { d.values.keep(ctx, l.ledger, l.log) })
	}
	tasks.Go(func() { every(ctx, d.cfg.WarnEvery, d.warnOpen, func(error) {}) })
	tasks.Go(func() { d.sweepNodes(ctx, l) })
}

// follow runs Config.Follow, again after an error, until ctx ends.
func (d *Daemon) follow(ctx context.Context, l leadership) {
	for ctx.Err() == nil {
		if err := d.cfg.Follow(ctx, l.ledger, l.model, l.log); err != nil && ctx.Err() == nil {
			l.log.WithError(err).Error("kubernetes is not followed, trying again")
			retry.Pause(ctx, standBack)
		}
	}
}

// keepReconciled repairs the state and removes expired records, at once and then periodically.
func (d *Daemon) keepReconciled(ctx context.Context, l leadership) {
	reconcile := func() error {
		return errors.Join(l.reconciler.Run(ctx), access.Forget(ctx, l.ledger, time.Now()))
	}
	report := func(err error) { l.log.WithError(err).Warn("reconciling") }
	if err := reconcile(); err != nil && ctx.Err() == nil {
		report(err)
	}
	every(ctx, d.cfg.ReconcileEvery, reconcile, report)
}

// sweepNodes frees the endpoints of lost nodes.
func (d *Daemon) sweepNodes(ctx context.Context, l leadership) {
	every(ctx, d.cfg.SweepEvery, func() error { return l.collector.Sweep(ctx, time.Now()) }, func(err error) {
		l.log.WithError(err).Warn("looking after nodes")
	})
}

// every repeats a task until ctx ends; a failure is reported and the task repeated all the same.
func every(ctx context.Context, period time.Duration, task func() error, report func(error)) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := task(); err != nil && ctx.Err() == nil {
				report(err)
			}
		}
	}
}

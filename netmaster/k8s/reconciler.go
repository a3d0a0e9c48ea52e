package k8s

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/contiv/netplugin/objdb/ledger"
)

// reconciler keeps the records of one kind of thing, such as pods, in line with the caches of the informers.
// Each thing has a key, and is reconciled whenever one of the objects that it depends on has changed.
type reconciler struct {
	kind    string // for messages: "pod"
	workers int    // number of concurrent reconciliations
	follows []followed
	rest    time.Duration // how long a thing is not reconciled again after it was: changes within this time are handled together
	prepare func() error  // called before the informers start; nil: nothing
	// known returns the keys that the state has from earlier terms, so that those of deleted objects are removed.
	known func(r ledger.Reader) (keys []string, err error)
	// reconcile updates the records of one thing. again, if not zero, is when it is reconciled again though
	// nothing has changed. After an error it is retried, less and less often.
	reconcile func(ctx context.Context, key string) (again time.Duration, err error)

	queue workqueue.TypedRateLimitingInterface[string]
	lag   *lag
}

// followed is a kind of objects on which things depend.
type followed struct {
	informer cache.SharedIndexInformer
	concerns func(object any) (keys []string) // keys of the things that depend on an object, in its old or new version
	same     func(before, now any) bool       // a change does not concern them; nil: every change may
}

// Backoff of a thing that cannot be reconciled.
const (
	retryFirst = 5 * time.Millisecond
	retryMost  = time.Minute
)

// manyWorkers is for things whose records do not depend on each other. Workers wait for the ledger
// concurrently, and it commits the waiting plans in one transaction.
const manyWorkers = 32

// auditEvery is how often everything is reconciled though nothing
// has changed, to repair what a fault of ours has missed.
const auditEvery = time.Hour

// byName is for objects that concern the thing of the same name.
func byName(object any) []string {
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		return nil // not an object
	}
	return []string{key}
}

// within is for things that depend on their namespace.
func within(things cache.SharedIndexInformer) func(object any) []string {
	return func(object any) []string {
		namespace, ok := object.(*corev1.Namespace)
		if !ok {
			return nil
		}
		names, _ := things.GetIndexer().IndexKeys(cache.NamespaceIndex, namespace.Name) // all informers have this index
		return names
	}
}

// subscribe queues things when their objects change. It is called before the informers start.
func (w *reconciler) subscribe() error {
	w.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryMost))
	if w.prepare != nil {
		if err := w.prepare(); err != nil {
			return fmt.Errorf("kubernetes: follow what %ss depend on: %w", w.kind, err)
		}
	}
	for _, f := range w.follows {
		mark := func(object any) { w.enqueue(f.concerns(object)...) }
		_, err := f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: mark,
			UpdateFunc: func(before, now any) {
				if f.same == nil || !f.same(before, now) {
					mark(before)
					mark(now)
				}
			},
			DeleteFunc: func(object any) {
				if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = last.Obj
				}
				mark(object)
			},
		})
		if err != nil {
			return fmt.Errorf("kubernetes: follow what %ss depend on: %w", w.kind, err)
		}
	}
	return nil
}

// enqueue queues changed objects for reconciliation.
func (w *reconciler) enqueue(keys ...string) {
	for _, key := range keys {
		w.lag.marked(key, time.Now())
		w.queue.Add(key)
	}
}

// audit queues all objects, and all keys in the state.
func (w *reconciler) audit(r ledger.Reader) error {
	keys, err := w.known(r)
	if err != nil {
		return fmt.Errorf("kubernetes: what the state has of %ss: %w", w.kind, err)
	}
	for _, f := range w.follows {
		for _, object := range f.informer.GetStore().List() {
			for _, key := range f.concerns(object) {
				w.queue.Add(key)
			}
		}
	}
	for _, key := range keys { // after all objects: see policies.adopt
		w.queue.Add(key)
	}
	return nil
}

// run reconciles things until ctx ends.
func (c *Controller) run(ctx context.Context, w *reconciler) {
	var working sync.WaitGroup
	for range w.workers {
		working.Go(func() {
			for c.next(ctx, w) {
			}
		})
	}
	<-ctx.Done()
	w.queue.ShutDown()
	working.Wait()
}

// next reconciles one thing; false: the queue is closed.
func (c *Controller) next(ctx context.Context, w *reconciler) bool {
	key, done := w.queue.Get()
	if done {
		return false
	}
	defer w.leave(key)
	w.lag.begin(key)
	again, err := w.reconcile(ctx, key)
	since := w.lag.end(key, err == nil)
	if err != nil {
		if ctx.Err() == nil {
			c.cfg.Log.WithError(err).WithField(w.kind, key).Warn("kubernetes: not as it should be yet")
		}
		w.queue.AddRateLimited(key)
		return true
	}
	w.queue.Forget(key)
	if !since.IsZero() {
		c.cfg.Metrics.written.WithLabelValues(w.kind).Observe(time.Since(since).Seconds())
	}
	if again > 0 {
		w.queue.AddAfter(key, again)
	}
	return true
}

// leave allows the next reconciliation of a thing after its rest: until then the queue holds its changes.
func (w *reconciler) leave(key string) {
	if w.rest == 0 {
		w.queue.Done(key)
		return
	}
	time.AfterFunc(w.rest, func() { w.queue.Done(key) }) // without effect after the term
}

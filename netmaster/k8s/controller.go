package k8s

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"

	"github.com/contiv/netplugin/objdb/ledger"
)

// Config is what a controller works with.
type Config struct {
	Client kubernetes.Interface
	Choice TenantChoice
	Log    *logrus.Entry
}

// Controller follows one API server for one term.
type Controller struct {
	cfg    Config
	ledger *ledger.Ledger

	informers  informers.SharedInformerFactory
	pods       corelisters.PodLister
	namespaces corelisters.NamespaceLister
	queue      workqueue.TypedRateLimitingInterface[string] // namespace/name of pods
	recorder   events.EventRecorder

	mu      sync.Mutex
	records map[string]map[string]struct{} // keys of the records of a pod, by namespace/name
}

// Times between tries of a pod, and how many are worked on at once: each takes a
// transaction of the store.
const (
	retryFirst = 50 * time.Millisecond
	retryMost  = time.Minute
	workers    = 4
	// refusedAgain is when a refused pod is looked at again: the group it wants may be there then.
	refusedAgain = 3 * time.Second
)

// New prepares a controller; nothing happens before Run.
func New(cfg Config, l *ledger.Ledger) *Controller {
	factory := informers.NewSharedInformerFactoryWithOptions(cfg.Client, 0, informers.WithTransform(strip))
	return &Controller{
		cfg: cfg, ledger: l, informers: factory,
		pods: factory.Core().V1().Pods().Lister(), namespaces: factory.Core().V1().Namespaces().Lister(),
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](retryFirst, retryMost)),
		records: map[string]map[string]struct{}{},
	}
}

// Run follows the API server until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	defer c.queue.ShutDown()
	podInformer := c.informers.Core().V1().Pods().Informer()
	if _, err := podInformer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.mark,
		UpdateFunc: func(_, object any) { c.mark(object) },
		DeleteFunc: c.mark,
	}); err != nil {
		return fmt.Errorf("kubernetes: follow pods: %w", err)
	}
	c.informers.Core().V1().Namespaces().Informer() // so that it is started
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: c.cfg.Client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("kubernetes: events: %w", err)
	}
	defer broadcaster.Shutdown()
	c.recorder = broadcaster.NewRecorder(scheme.Scheme, "contiv-netmaster")

	following, stop := context.WithCancel(ctx)
	defer c.informers.Shutdown() // waits for those whom stop tells to end
	defer stop()
	c.informers.Start(following.Done())
	for kind, complete := range c.informers.WaitForCacheSync(ctx.Done()) {
		if !complete {
			return fmt.Errorf("kubernetes: list of %v: %w", kind, context.Cause(ctx))
		}
	}
	if err := c.adopt(); err != nil {
		return err
	}
	c.cfg.Log.WithField("pods", len(podInformer.GetStore().ListKeys())).Info("kubernetes: all caches are complete")

	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for c.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	c.queue.ShutDown()
	working.Wait()
	return ctx.Err()
}

// mark has a worker look at a pod, which may be gone.
func (c *Controller) mark(object any) {
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
		c.queue.Add(key)
	}
}

// next works on one pod; false: there is nothing to do any more.
func (c *Controller) next(ctx context.Context) bool {
	key, done := c.queue.Get()
	if done {
		return false
	}
	defer c.queue.Done(key)
	refused, err := c.place(ctx, key)
	switch {
	case err != nil:
		if ctx.Err() == nil {
			c.cfg.Log.WithError(err).WithField("pod", key).Warn("kubernetes: pod not placed yet")
		}
		c.queue.AddRateLimited(key)
	case refused:
		c.queue.Forget(key)
		c.queue.AddAfter(key, refusedAgain)
	default:
		c.queue.Forget(key)
	}
	return true
}

// strip takes away what nobody here reads: pods are most of a cluster's memory.
func strip(object any) (any, error) {
	switch o := object.(type) {
	case *corev1.Pod:
		o.ManagedFields = nil
		o.Spec = corev1.PodSpec{NodeName: o.Spec.NodeName, HostNetwork: o.Spec.HostNetwork}
		o.Status = corev1.PodStatus{Phase: o.Status.Phase}
	case *corev1.Namespace:
		o.ManagedFields = nil
	}
	return object, nil
}

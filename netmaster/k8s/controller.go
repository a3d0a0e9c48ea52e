package k8s

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	policyclient "sigs.k8s.io/network-policy-api/pkg/client/clientset/versioned"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// Config configures a controller.
type Config struct {
	Client kubernetes.Interface
	// PolicyClient is for kinds of sigs.k8s.io/network-policy-api.
	PolicyClient policyclient.Interface
	// KindEvery is the interval of checks whether the API server has such kinds; 0: a minute.
	KindEvery time.Duration
	Choice    TenantChoice
	// NoExternalIPs disables externalIPs of services: any user who may create a service could claim any address with
	// them.
	NoExternalIPs bool
	// PodRanges are the pod CIDRs of a new cluster, at most one of each IP family; empty: found out.
	PodRanges []netip.Prefix
	Model     Model
	// Agents returns the nodes with registered agents; nil: there are none.
	Agents func(ctx context.Context) (nodes []string, err error)
	// GoneEvery is the interval of checks whether the agent of a deleted node still runs; 0: 10 seconds.
	GoneEvery time.Duration
	// ReadyAgents returns the nodes whose agents can attach pods.
	ReadyAgents func(ctx context.Context) (nodes []string, err error)
	// EnforcedPolicies returns the nodes' reports about the policies
	// that their switches enforce, by node; nil: there are none.
	EnforcedPolicies func(ctx context.Context) (map[string]mastercfg.K8sEnforced, error)
	// KnowAnyPod returns, for nodes with registered agents, whether the agent supports rules about any pod
	// (mastercfg.TierRule); nil: no agent does.
	KnowAnyPod func(ctx context.Context) (map[string]bool, error)
	// ReportEvery is the interval of reports about policies; 0: 5 seconds.
	ReportEvery time.Duration
	// RestoredEvery is the interval of checks whether the API server was restored from a backup; 0: 30 seconds.
	RestoredEvery time.Duration
	// EventEvery is the minimum interval of events of an object with the same reason; 0: a minute.
	EventEvery time.Duration
	// UnmatchedGrace is how long backends without a matching service port are not reported; 0: 10 seconds.
	UnmatchedGrace time.Duration
	Metrics        *Metrics // nil: none
	Log            *logrus.Entry
}

// Model creates networks.
type Model interface {
	// FirstNetworks creates these networks, unless there are others.
	FirstNetworks(ctx context.Context, networks ...*contivmodel.Network) (made bool, err error)
}

// Controller follows one API server for one term.
type Controller struct {
	cfg         Config
	ledger      *ledger.Ledger
	informers   informers.SharedInformerFactory
	recorder    events.EventRecorder
	warnings    warnings
	notes       warnings // the same for messages that are not problems
	reconcilers []*reconciler
	policies    *policies
	problem     atomic.Pointer[string] // see State
}

// New returns a controller, which does nothing before Run.
func New(cfg Config, l *ledger.Ledger) *Controller {
	c := &Controller{
		cfg: cfg, ledger: l,
		informers: informers.NewSharedInformerFactoryWithOptions(cfg.Client, 0, informers.WithTransform(strip), informers.WithTweakListOptions(ofNow)),
	}
	if c.cfg.Metrics == nil {
		c.cfg.Metrics = NewMetrics()
	}
	if c.cfg.Agents == nil {
		c.cfg.Agents = func(context.Context) ([]string, error) { return nil, nil }
	}
	if c.cfg.EnforcedPolicies == nil {
		c.cfg.EnforcedPolicies = func(context.Context) (map[string]mastercfg.K8sEnforced, error) { return nil, nil }
	}
	if c.cfg.KnowAnyPod == nil {
		c.cfg.KnowAnyPod = func(context.Context) (map[string]bool, error) { return nil, nil }
	}
	c.setProblem("the leader has just begun")
	policies := c.newPolicies()
	c.policies = policies
	c.reconcilers = append([]*reconciler{
		policies.reconciler,
		c.podReconciler(policies),
		c.nodeReconciler(),
		c.rangesReconciler(),
		c.overlapReconciler(),
		c.taintReconciler(),
		c.strayReconciler(),
	}, c.serviceReconcilers()...)
	for _, w := range c.reconcilers {
		w.lag = newLag(c.cfg.Metrics.waiting.WithLabelValues(w.kind))
	}
	return c
}

// Run follows the API server until ctx ends, or until the API server has gone back to an earlier state (restored.go).
func (c *Controller) Run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if err := c.firstNetworks(ctx); err != nil {
		return fmt.Errorf("kubernetes: networks of a new cluster: %w", err)
	}
	stopEvents, err := c.startEvents(ctx)
	if err != nil {
		return err
	}
	defer stopEvents()
	for _, w := range c.reconcilers {
		if err := w.subscribe(); err != nil {
			return err
		}
		defer w.queue.ShutDown()
		defer w.lag.length.Set(0) // a follower has nothing waiting
	}
	following, stop := context.WithCancel(ctx)
	defer c.informers.Shutdown() // waits for the informers, which stop ends
	defer stop()
	c.informers.Start(following.Done())
	if err := c.complete(ctx); err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(c.reconcilers), func(w *reconciler) bool { return w == c.policies.reconciler })
	if err := c.audit(others...); err != nil {
		return err
	}
	c.cfg.Log.Info("kubernetes: all caches are complete")

	var working sync.WaitGroup
	working.Go(func() { c.follow(ctx, following) })
	working.Go(func() { c.endRestored(ctx, end) })
	for _, w := range others {
		working.Go(func() { c.run(ctx, w) })
	}
	tick := time.NewTicker(auditEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			if err := c.audit(c.reconcilers...); err != nil {
				c.cfg.Log.WithError(err).Warn("kubernetes: the hourly audit")
			}
		}
	}
	working.Wait()
	return context.Cause(ctx)
}

// startEvents starts the writer of events; stop ends it, and waits for that.
func (c *Controller) startEvents(ctx context.Context) (stop func(), err error) {
	kinds := runtime.NewScheme() // kinds that events may refer to
	for _, install := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha2.Install} {
		if err := install(kinds); err != nil {
			return nil, fmt.Errorf("kubernetes: kinds of objects: %w", err)
		}
	}
	writer, err := newEventWriter(c.cfg.Client.EventsV1(), kinds, cmp.Or(c.cfg.EventEvery, eventEvery), c.cfg.Log)
	if err != nil {
		return nil, err
	}
	c.recorder = writer
	telling, silence := context.WithCancel(ctx)
	var told sync.WaitGroup
	told.Go(func() { writer.run(telling) })
	return func() { silence(); told.Wait() }, nil
}

// follow applies policies, as soon as it is known which
// ClusterNetworkPolicies exist. Until then new pods are isolated.
func (c *Controller) follow(ctx, following context.Context) {
	c.setProblem("it is not known yet which ClusterNetworkPolicies there are: new pods are isolated, and no policy changes")
	defer c.policies.cluster.close()
	if err := c.policies.cluster.begin(following); err != nil {
		return // the term ends
	}
	for {
		err := c.audit(c.policies.reconciler)
		if err == nil {
			break
		}
		c.setProblem(err.Error())
		c.cfg.Log.WithError(err).Warn("kubernetes: policies are not looked at")
		if pause(ctx, kindAgain) != nil {
			return
		}
	}
	c.setProblem("")
	var working sync.WaitGroup
	working.Go(func() { c.policies.cluster.run(ctx) })
	working.Go(func() { c.policies.report(ctx) })
	working.Go(func() { c.policies.followAgents(ctx) })
	c.run(ctx, c.policies.reconciler)
	working.Wait()
}

// completeSoon is the time in which all lists are complete normally.
const completeSoon = 30 * time.Second

// complete waits until all caches are complete, and logs those that are not.
func (c *Controller) complete(ctx context.Context) error {
	for ctx.Err() == nil {
		soon, cancel := context.WithTimeout(ctx, completeSoon)
		var missing []string
		for kind, complete := range c.informers.WaitForCacheSync(soon.Done()) {
			if !complete {
				missing = append(missing, kind.Elem().Name())
			}
		}
		cancel()
		if len(missing) == 0 {
			return nil
		}
		slices.Sort(missing)
		lack := fmt.Sprintf("there is no list of each %s yet, and nothing is done without: may netmaster list and watch them? "+
			"deploy/kubernetes/base/rbac.yaml has what it needs", strings.Join(missing, ", "))
		c.setProblem(lack)
		c.cfg.Log.Warn("kubernetes: " + lack)
	}
	return fmt.Errorf("kubernetes: lists of the API server: %w", context.Cause(ctx))
}

// audit queues all objects of some reconcilers.
func (c *Controller) audit(kinds ...*reconciler) error {
	return c.ledger.View(func(r ledger.Reader) error {
		for _, w := range kinds {
			if err := w.audit(r); err != nil {
				return err
			}
		}
		return nil
	})
}

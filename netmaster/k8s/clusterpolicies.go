package k8s

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
	policyclient "sigs.k8s.io/network-policy-api/pkg/client/clientset/versioned"
	policyinformers "sigs.k8s.io/network-policy-api/pkg/client/informers/externalversions"
	policylisters "sigs.k8s.io/network-policy-api/pkg/client/listers/apis/v1alpha2"
)

// clusterPolicies follows the ClusterNetworkPolicies of the API server while it has that kind: it is a custom
// resource, which operators may install and remove at any time.
type clusterPolicies struct {
	server  discovery.ServerResourcesInterfaceWithContext
	client  policyclient.Interface
	every   time.Duration     // interval of checks whether the kind is installed
	changed func(name string) // a policy was changed or deleted
	written func() bool       // whether the state has policies of the kind
	log     *logrus.Entry

	missed int    // how often in a row the server did not have the kind
	stop   func() // stops the informer; nil: there is none

	mu     sync.Mutex
	lister policylisters.ClusterNetworkPolicyLister // nil: the kind is not installed
}

// Times of the checks whether the kind is installed.
const (
	kindEvery  = time.Minute
	kindAnswer = 10 * time.Second // time limit of an answer
	kindAgain  = time.Second      // after an error, while nothing can be done without an answer
	// kindGone is how many answers in a row must lack the kind before its policies are removed. A server that
	// has just started may answer so once.
	kindGone = 2
	// kindMissed is the time between these answers for a new leader.
	kindMissed = 10 * time.Second
)

// begin finds out whether the kind is installed and lists its objects, however long that takes. A single answer
// without the kind is sufficient only if no policy of the kind is in force.
func (c *clusterPolicies) begin(ctx context.Context) error {
	said := time.Now()
	for {
		err, again := c.checkInstalled(ctx), kindAgain
		switch {
		case err == nil && (c.missed == 0 || c.missed >= kindGone || !c.written()):
			return nil
		case err == nil:
			err, again = fmt.Errorf("the API server does not know their kind, and has had it before"), min(c.every, kindMissed)
		}
		if time.Since(said) >= completeSoon {
			c.log.WithError(err).Warn("kubernetes: it is not known yet which ClusterNetworkPolicies there are: new pods are isolated, and no policy changes")
			said = time.Now()
		}
		if err := pause(ctx, again); err != nil {
			return fmt.Errorf("kubernetes: ClusterNetworkPolicies: %w", err)
		}
	}
}

// run repeats the check until ctx ends.
func (c *clusterPolicies) run(ctx context.Context) {
	for pause(ctx, c.every) == nil {
		if err := c.checkInstalled(ctx); err != nil && ctx.Err() == nil {
			c.log.WithError(err).Warn("kubernetes: it is not known which ClusterNetworkPolicies there are")
		}
	}
}

// close stops the informer.
func (c *clusterPolicies) close() {
	if c.stop != nil {
		c.stop()
		c.stop = nil
	}
}

// pause waits, or returns why ctx has ended.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// checkInstalled reads whether the API server has the kind, and starts or stops its informer.
func (c *clusterPolicies) checkInstalled(ctx context.Context) error {
	soon, done := context.WithTimeout(ctx, kindAnswer)
	defer done()
	kinds, err := c.server.ServerResourcesForGroupVersionWithContext(soon, v1alpha2.GroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		c.missed = 0
		return fmt.Errorf("kinds of %s: %w", v1alpha2.GroupVersion, err)
	}
	if err == nil && slices.ContainsFunc(kinds.APIResources, func(r metav1.APIResource) bool { return r.Name == clusterPolicyResource }) {
		c.missed = 0
		return c.follow(ctx)
	}
	if c.missed++; c.missed >= kindGone {
		c.forget()
	}
	return nil
}

// clusterPolicyResource is the resource name of the kind.
const clusterPolicyResource = "clusternetworkpolicies"

// follow lists the policies, and calls changed for each that changes.
func (c *clusterPolicies) follow(ctx context.Context) error {
	if c.stop != nil {
		return nil
	}
	factory := policyinformers.NewSharedInformerFactoryWithOptions(c.client, 0, policyinformers.WithTransform(strip), policyinformers.WithTweakListOptions(ofNow))
	policies := factory.Policy().V1alpha2().ClusterNetworkPolicies()
	informer := policies.Informer()
	following, cancel := context.WithCancel(ctx)
	stop := func() { cancel(); factory.Shutdown() }
	factory.Start(following.Done())
	soon, done := context.WithTimeout(ctx, completeSoon)
	defer done()
	if !cache.WaitForCacheSync(soon.Done(), informer.HasSynced) {
		stop()
		return fmt.Errorf("there is no list of each ClusterNetworkPolicy: may netmaster list and watch them? deploy/kubernetes/base/rbac.yaml has what it needs")
	}
	c.set(policies.Lister())
	mark := func(object any) {
		if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = last.Obj
		}
		for _, name := range byName(object) {
			c.changed(name)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // also called for the listed ones
		AddFunc: mark, UpdateFunc: func(_, now any) { mark(now) }, DeleteFunc: mark,
	}); err != nil {
		stop()
		return fmt.Errorf("follow ClusterNetworkPolicies: %w", err)
	}
	c.stop = stop
	c.log.Info("kubernetes: ClusterNetworkPolicies are followed")
	return nil
}

// forget stops the informer, and reports all its policies as changed.
func (c *clusterPolicies) forget() {
	if c.stop == nil {
		return
	}
	c.close()
	gone := c.list()
	c.set(nil)
	for _, policy := range gone {
		c.changed(policy.Name)
	}
	c.log.WithField("policies", len(gone)).Warn("kubernetes: the API server has no kind ClusterNetworkPolicy any more: policies of it are not in force")
}

func (c *clusterPolicies) set(lister policylisters.ClusterNetworkPolicyLister) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lister = lister
}

// followed reports whether the API server has the kind, as far as is known.
func (c *clusterPolicies) followed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lister != nil
}

// list returns all policies.
func (c *clusterPolicies) list() []*v1alpha2.ClusterNetworkPolicy {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lister == nil {
		return nil
	}
	all, err := c.lister.List(labels.Everything())
	if err != nil { // a cache never fails
		c.log.WithError(err).Error("kubernetes: list ClusterNetworkPolicies")
	}
	return all
}

// get returns a policy. Without the kind, no policy exists.
func (c *clusterPolicies) get(name string) (*v1alpha2.ClusterNetworkPolicy, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lister == nil {
		return nil, apierrors.NewNotFound(v1alpha2.Resource(clusterPolicyResource), name)
	}
	return c.lister.Get(name)
}

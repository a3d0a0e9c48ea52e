package k8s

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State is how well the API server is followed.
type State struct {
	Problem  string    // why it is not; empty: it is
	Waiting  int       // objects that have changed, and are not written down yet
	First    time.Time // when the first of them did; zero: nothing waits
	Troubles []Trouble
}

// Trouble is what an object asks for and does not get, where the store has nothing about it. Reason and
// message are those of its event.
type Trouble struct{ Object, Reason, Message string }

// answerTime is how long the API server may take to answer whether it is there.
const answerTime = 2 * time.Second

// State tells how it goes now. It asks the API server.
func (c *Controller) State(ctx context.Context) (s State) {
	s.Problem = *c.problem.Load()
	switch err := c.answers(ctx); {
	case apierrors.IsForbidden(err):
		s.Problem = fmt.Sprintf("netmaster may not list what it follows: %v; deploy/kubernetes/base/rbac.yaml has what it needs", err)
	case err != nil:
		s.Problem = fmt.Sprintf("the API server does not answer: %v", err)
	}
	for _, w := range c.reconcilers {
		count, first := w.lag.waiting()
		s.Waiting += count
		if !first.IsZero() && (s.First.IsZero() || first.Before(s.First)) {
			s.First = first
		}
	}
	s.Troubles = c.warnings.troubles()
	slices.SortFunc(s.Troubles, func(a, b Trouble) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason))
	})
	return s
}

// setProblem sets the reason why the controller cannot follow the API server; empty: it does.
func (c *Controller) setProblem(what string) { c.problem.Store(&what) }

// answers asks the API server for an object of each kind that is followed: rights may be taken away kind by kind, and watches that have
// begun go on then for a while.
func (c *Controller) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	core, network, one := c.cfg.Client.CoreV1(), c.cfg.Client.NetworkingV1(), metav1.ListOptions{Limit: 1}
	questions := []func() error{
		func() error { _, err := core.Nodes().List(ctx, one); return err },
		func() error { _, err := core.Namespaces().List(ctx, one); return err },
		func() error { _, err := core.Pods(metav1.NamespaceAll).List(ctx, one); return err },
		func() error { _, err := core.Services(metav1.NamespaceAll).List(ctx, one); return err },
		func() error {
			_, err := c.cfg.Client.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List(ctx, one)
			return err
		},
		func() error { _, err := network.NetworkPolicies(metav1.NamespaceAll).List(ctx, one); return err },
		func() error { _, err := network.ServiceCIDRs().List(ctx, one); return err },
	}
	if c.policies.cluster.followed() {
		questions = append(questions, func() error {
			if _, err := c.cfg.PolicyClient.PolicyV1alpha2().ClusterNetworkPolicies().List(ctx, one); !apierrors.IsNotFound(err) {
				return err
			}
			return nil // the kind has just been removed
		})
	}
	type answer struct {
		of  int
		err error
	}
	answers, errs := make(chan answer, len(questions)), make([]error, len(questions))
	for i, ask := range questions {
		go func() { answers <- answer{i, ask()} }()
	}
	for range questions { // not for those that go on beyond their time
		select {
		case a := <-answers:
			errs[a.of] = a.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return cmp.Or(errs...)
}

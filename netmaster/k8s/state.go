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

// State is the state of following the API server.
type State struct {
	Problem  string    // why the controller does not follow it; empty: it does
	Waiting  int       // changed objects that are not written yet
	First    time.Time // when the first of these changed; zero: none is waiting
	Troubles []Trouble
}

// Trouble is a request of an object that was refused, if the store
// has no record of that. Reason and message are those of its event.
type Trouble struct{ Object, Reason, Message string }

// answerTime is the time limit for the API server's answer.
const answerTime = 2 * time.Second

// State returns the present state. It asks the API server.
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

// answers asks the API server for an object of each watched kind: permissions may be revoked kind by kind, and
// running watches continue for a while then.
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
			return nil // the kind was just removed
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
	for range questions { // without waiting for requests that exceed the time limit
		select {
		case a := <-answers:
			errs[a.of] = a.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return cmp.Or(errs...)
}

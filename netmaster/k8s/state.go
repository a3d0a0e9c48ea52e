package k8s

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

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
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	s.Problem = *c.problem.Load()
	if _, err := c.cfg.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
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

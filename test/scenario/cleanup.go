package scenario

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// deleteAll removes the pods and objects of the first act.
func (s *Scenario) deleteAll(ctx context.Context) error {
	err := s.eachPod(func(_ podSpec, pod *testbed.Pod) error { return pod.Delete(ctx) })
	if err != nil {
		return err
	}
	err = s.netctlAll(ctx,
		[]string{"policy", "rule-rm", "-t", "blue", "guard", "no-tcp"},
		[]string{"group", "rm", "-t", "blue", "web"},
		[]string{"group", "rm", "-t", "blue", "db"},
		[]string{"policy", "rm", "-t", "blue", "guard"},
		[]string{"network", "rm", "-t", "blue", "front"},
		[]string{"network", "rm", "-t", "blue", "back"},
		[]string{"network", "rm", "-t", "red", "front"},
		[]string{"tenant", "rm", "blue"},
		[]string{"tenant", "rm", "red"},
	)
	if err != nil {
		return err
	}
	return s.nothingIsLeft(ctx)
}

// cleanUpLimit is the time limit for agents to clean up after requests were answered, on a busy machine.
const cleanUpLimit = 2 * time.Minute

// nothingIsLeft compares the cluster with its state before the first object.
func (s *Scenario) nothingIsLeft(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, cleanUpLimit)
	defer cancel()
	var left []string
	err = testkit.Poll(ctx, func() error {
		after, err := s.bed.Snapshot(ctx)
		if err != nil {
			return err
		}
		if left = s.before.Diff(after); len(left) > 0 {
			return errors.New("something is left")
		}
		return nil
	})
	if err != nil && len(left) == 0 {
		return err
	}
	for _, what := range slices.Sorted(maps.Keys(s.before)) { // flows may be in another order
		differs := slices.ContainsFunc(left, func(line string) bool { return strings.HasPrefix(line, what+": ") })
		s.check(!differs, "%s: as before the first object", what)
	}
	for _, line := range left {
		fmt.Fprintf(s.out, "        %s\n", line)
	}
	return nil
}

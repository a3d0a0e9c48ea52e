package scenario

import (
	"context"
	"fmt"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

// deleteAll removes pods and objects and compares the cluster with what it was.
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
	var after testbed.Snapshot
	var left []string
	deadline := time.Now().Add(10 * time.Second) // agents clean up behind the answers
	for {
		if after, err = s.bed.Snapshot(ctx); err != nil {
			return err
		}
		if left = s.before.Diff(after); len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for what := range s.before {
		s.check(after[what] == s.before[what], "%s: as before the first object", what)
	}
	for _, line := range left {
		fmt.Fprintf(s.out, "        %s\n", line)
	}
	return nil
}

package scenario

import (
	"context"
	"fmt"
	"time"
)

// ruleChanges is how often the rule is added and removed.
const ruleChanges = 5

// measureRule adds and removes a rule while pods on all nodes send a datagram per millisecond, and measures the
// time from the request to the first datagram treated by the new rules on the slowest node.
func (s *Scenario) measureRule(ctx context.Context) error {
	if err := s.netctlAll(ctx, []string{"group", "create", "-t", "blue", "-p", "guard", "back", "db"}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	target := s.pods["db1"]
	var watches []*Watch
	for _, name := range []string{"web1", "web2", "db2"} { // one on each node
		w, err := StartWatch(ctx, s.pods[name], target.IP.String()+":"+echoPort)
		if err != nil {
			return err
		}
		defer w.Stop()
		watches = append(watches, w)
	}
	if _, err := AwaitAll(ctx, watches, true); err != nil {
		return fmt.Errorf("before the rule: %w", err)
	}
	for range ruleChanges {
		for _, change := range []struct {
			answered bool
			args     []string
		}{
			{false, []string{"policy", "rule-add", "-t", "blue", "-d", "in", "-l", "udp", "-p", "20", "-j", "deny", "guard", "no-udp"}},
			{true, []string{"policy", "rule-rm", "-t", "blue", "guard", "no-udp"}},
		} {
			started := time.Now()
			if _, err := s.bed.Netctl(ctx, change.args...); err != nil {
				return err
			}
			at, err := AwaitAll(ctx, watches, change.answered)
			if err != nil {
				return err
			}
			s.timing("policy change to enforcement", max(0, at.Sub(started)))
		}
	}
	s.check(true, "a rule added and removed %d times met the traffic of all nodes each time", ruleChanges)
	return s.netctl(ctx, "group", "create", "-t", "blue", "back", "db")
}

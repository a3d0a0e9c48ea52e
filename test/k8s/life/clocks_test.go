package life

import (
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

// Clocks are wrong by more than any duration that two machines measure, and are set while the daemons run: nodes
// stay ready, pods start and end, policies apply, and running pods go on.
func TestClocksOfMachinesDiffer(t *testing.T) {
	s := begin(t, 2, 2*podLimit)
	here, there := s.Nodes[0], s.Nodes[1]
	from, to := s.pod("from", 1), s.pod("to", 2)
	for i, set := range []struct{ here, there time.Duration }{
		{0, 10 * time.Minute}, {-time.Hour, 10 * time.Minute}, {time.Hour, -10 * time.Minute}, {0, 0},
	} {
		for n, ahead := range map[*testbed.Node]time.Duration{here: set.here, there: set.there} {
			for _, p := range []*testbed.Process{n.Netmaster(), n.Netplugin(), s.Process(n, "kubelet"), s.Process(n, "containerd")} {
				s.must(p.SetClock(ahead))
			}
		}
		name := fmt.Sprint("later-", i)
		later := s.pod(name, 2)
		s.soon(func() error { return ahead(there.LogFile("kubelet"), set.there) })
		s.soon(func() error { return s.reaches(from, later.IP) })
		s.policy(name, object{"podSelector": selects(name)})
		s.soon(func() error { return s.isolated(from, later.IP) })
		s.soon(func() error { return s.reaches(from, to.IP) })
		s.noPolicy(name)
		s.soon(func() error { return s.reaches(from, later.IP) })
		s.must(remove(s.ctx, s.api, name, false))
		s.soon(func() error {
			if _, err := sandbox(s.ctx, there, name); err == nil {
				return fmt.Errorf("pod %s is still there", name)
			}
			return nil
		})
		_, err := s.Kubectl(s.ctx, "wait", "--for=condition=Ready", "node", "--all", "--timeout=2m")
		s.must(err)
		t.Logf("clocks were ahead by %s and %s", set.here, set.there)
	}
	for _, n := range s.Nodes { // no daemon has ended, or is no longer ready
		for _, p := range []*testbed.Process{n.Netmaster(), n.Netplugin()} {
			if p.Exited() {
				t.Errorf("%s of %s has ended", p.Name, n.Name)
			}
		}
		s.must(n.WaitReady(s.ctx))
	}
}

// logTime is the time of a line of kubelet's log.
var logTime = regexp.MustCompile(`(?m)^[IWEF]\d{4} (\d\d:\d\d:\d\d)\.`)

// ahead returns an error unless the clock of the log's process differs by that from ours.
func ahead(log string, want time.Duration) error {
	data, err := os.ReadFile(log)
	if err != nil {
		return err
	}
	lines := logTime.FindAllSubmatch(data, -1)
	if len(lines) == 0 {
		return fmt.Errorf("%s has no times", log)
	}
	wanted := time.Now().Add(want)
	said, err := time.Parse(time.TimeOnly, string(lines[len(lines)-1][1]))
	if err != nil {
		return err
	}
	at := time.Date(wanted.Year(), wanted.Month(), wanted.Day(), said.Hour(), said.Minute(), said.Second(), 0, wanted.Location())
	if wanted.Sub(at).Abs() > 2*time.Minute {
		return fmt.Errorf("%s says %s, want about %s", log, lines[len(lines)-1][1], wanted.Format(time.TimeOnly))
	}
	return nil
}

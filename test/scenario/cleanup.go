package scenario

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

// snapshot is everything the cluster may leave behind, by what and where.
type snapshot map[string]string

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
	var after snapshot
	var left []string
	deadline := time.Now().Add(10 * time.Second) // agents clean up behind the answers
	for {
		if after, err = s.takeSnapshot(ctx); err != nil {
			return err
		}
		if left = s.before.diff(after); len(left) == 0 || time.Now().After(deadline) {
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

// leftovers are the commands whose output must be the same before and after.
var leftovers = []struct {
	what string
	args []string
}{
	{"ports", []string{"ovs-vsctl", "list-ports", "contivVxlanBridge"}},
	{"flows", []string{"ovs-ofctl", "-O", "OpenFlow13", "--no-stats", "dump-flows", "contivVxlanBridge"}},
	{"links", []string{"sh", "-c", "ls /sys/class/net | sort"}},
	{"namespaces", []string{"ip", "netns", "list"}},
	{"attachments", []string{"sh", "-c", "find /var/lib/contiv/cni -type f 2>/dev/null | sort"}},
}

// generation is the part of a flow that a restart of an agent changes.
var generation = regexp.MustCompile(`cookie=0x[0-9a-f]+, `)

func (s *Scenario) takeSnapshot(ctx context.Context) (snapshot, error) {
	all := snapshot{}
	for _, n := range s.bed.Nodes {
		for _, l := range leftovers {
			out, err := n.Run(ctx, l.args...)
			if err != nil {
				return nil, err
			}
			all[l.what+" of "+n.Name] = generation.ReplaceAllString(out, "")
		}
	}
	n := s.bed.Nodes[0]
	for _, root := range []string{"state", "oper", "obj", "master"} {
		out, err := n.Run(ctx, n.Tool("probe"), "keys", strings.Join(s.bed.EtcdEndpoints(), ","), "/contiv.io/"+root+"/")
		if err != nil {
			return nil, err
		}
		all["keys below "+root] = out
	}
	return all, nil
}

// diff lists the lines that are only in one of the snapshots.
func (before snapshot) diff(after snapshot) []string {
	var lines []string
	for what, text := range before {
		old, now := lineSet(text), lineSet(after[what])
		for line := range old {
			if !now[line] {
				lines = append(lines, what+": gone: "+line)
			}
		}
		for line := range now {
			if !old[line] {
				lines = append(lines, what+": new: "+line)
			}
		}
	}
	return lines
}

func lineSet(text string) map[string]bool {
	set := map[string]bool{}
	for line := range strings.SplitSeq(text, "\n") {
		set[line] = true
	}
	return set
}

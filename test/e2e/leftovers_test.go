package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testbed"
)

// TestABedThatIsClosedInTheMiddleOfWorkLeavesNothing looks at the machine it
// runs on, where other tests may be at work: it asks for what belongs to this bed.
func TestABedThatIsClosedInTheMiddleOfWorkLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx, bed := newBed(t, testbed.Config{Nodes: 2})
	for _, command := range []string{"tenant create blue", "network create -t blue -s 10.1.1.0/24 -g 10.1.1.254 front"} {
		if _, err := bed.Netctl(ctx, strings.Fields(command)...); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range bed.Nodes {
		pod, err := n.AddPod(ctx, fmt.Sprintf("pod%d", i), "blue", "front", "")
		if err != nil {
			t.Fatal(err)
		}
		if err := pod.Serve(ctx, "-udp", echoPort); err != nil {
			t.Fatal(err)
		}
	}
	if left := tracesOf(t, bed); len(left) == 0 {
		t.Fatal("a bed at work is not seen: the test cannot tell anything")
	}
	if err := bed.Close(); err != nil {
		t.Fatal(err)
	}
	if left := tracesOf(t, bed); len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
}

// tracesOf lists the directory of a bed, and the processes with mounts from it, as all processes on its nodes
// have. Links are removed with the last process of their namespace.
func tracesOf(t *testing.T, bed *testbed.Bed) (traces []string) {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range processes {
		// A process that ends meanwhile leaves nothing to read.
		mounts, _ := os.ReadFile(dir + "/mounts")
		if strings.Contains(string(mounts), bed.Dir+"/") {
			name, _ := os.ReadFile(dir + "/comm")
			traces = append(traces, fmt.Sprintf("%s %s has mounts of the bed", dir, strings.TrimSpace(string(name))))
		}
	}
	if _, err := os.Stat(bed.Dir); err == nil {
		traces = append(traces, bed.Dir)
	}
	return traces
}

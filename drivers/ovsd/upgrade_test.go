package ovsd_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// layout1 is what the version before wrote for the objects of this test: tables
// 0 to 14, with the number of its run, 41, in the cookies.
const layout1 = "testdata/layout-1.flows"

// A new version of the driver finds the flows of the version before, with
// tables and cookies of their own, and exchanges them under the traffic.
func TestAnUpgradeFromTheFirstLayoutLosesNoPacket(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	a.endpoint.Group, b.endpoint.Group = 5, 5
	all := drivers.Change{Replace: true, Set: []pipeline.Object{network, a.endpoint, b.endpoint, remote(9, 5),
		pipeline.Rule{ID: "r1", Priority: 3, SrcGroup: 5, DstGroup: 5, Protocol: 6, DstPort: 80}}}
	// It returns false if the pings were over before the upgrade was.
	upgrade := func(chunk, packets int) bool {
		r.stop()
		n.chunk = chunk
		n.Ofctl("del-meters", bridge)
		n.Ofctl("del-flows", bridge)
		n.Ofctl("add-flows", bridge, layout1)
		if n.flowsWith("cookie=0xc00029") != len(n.flows()) || len(n.flows()) < 50 {
			t.Fatalf("not the old layout:\n%s", strings.Join(n.flows(), "\n"))
		}
		// The datapath forgets a moment later that there were no flows.
		eventually(t, "packets pass by the old layout", func() bool {
			return a.command("ping", "-c", "1", "-W", "1", b.endpoint.IPv4.String()).Run() == nil
		})
		done, summary := probe(t, a, b, packets)
		r = n.start()
		r.give(all)
		if left := n.flowsWith("cookie=0xc00029"); left != 0 || !r.Status().InSync || len(n.flows()) != r.Status().Flows {
			t.Errorf("%d flows of the old layout are left, status %+v", left, r.Status())
		}
		covered := true
		select {
		case <-done:
			covered = false
		default:
		}
		<-done
		if want := fmt.Sprintf("%d packets transmitted, %d received", packets, packets); !strings.Contains(summary.String(), want) {
			t.Errorf("%d flows a bundle: %s", chunk, summary)
		}
		return covered
	}
	for _, chunk := range []int{0, 1, 3, 20} { // in one bundle, and in many
		for packets := 1000; !upgrade(chunk, packets); packets *= 2 {
			t.Logf("%d flows a bundle: %d packets are sent sooner than the upgrade is done", chunk, packets)
		}
	}
}

package ovsd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/ovstest"
	"github.com/contiv/netplugin/test/testkit"
)

// Flows of any kind that ovs-ofctl can write do not stop the driver. It removes those that it can parse, and those
// with our cookie; other programs' flows that it cannot parse it leaves and counts. Flows with a timeout expire by
// themselves.
func TestFlowsOfOthersDoNotStopTheDriver(t *testing.T) {
	const share = 6 // the list goes from kind to kind: this takes some of each
	var some []string
	for i, flow := range ovstest.ForeignFlows() {
		if i%share == 0 {
			some = append(some, flow)
		}
	}
	besideFlowsOfOthers(t, some)
}

func TestLongFlowsOfEveryActionAndFieldDoNotStopTheDriver(t *testing.T) {
	testkit.TakesLong(t)
	besideFlowsOfOthers(t, ovstest.ForeignFlows())
}

func besideFlowsOfOthers(t *testing.T, all []string) {
	n := newNode(t)
	n.config.AuditInterval = 200 * time.Millisecond
	r := n.start()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network}})
	empty := len(n.flows())
	n.AddForeignThings(bridge)
	write := func(owner string, from int, flows []string) {
		t.Helper()
		taken := 0
		for i, flow := range flows {
			if n.AddForeign(bridge, fmt.Sprintf("cookie=%s,table=200,priority=%d", owner, from+i), flow) == nil {
				taken++
			}
		}
		if taken < len(flows)*9/10 {
			t.Fatalf("the switch takes %d of %d flows only", taken, len(flows))
		}
	}
	const theirs, withOurs = "0x7", "0xc003000000000007"
	write(theirs, 100, all)
	write(withOurs, 1000, all[:10])
	ours := func() bool { return n.flowsWith("cookie="+withOurs) == 0 }
	forAWhile := func() int { return n.flowsWith("hard_timeout=200") }
	understood := func() bool { s := r.Status(); return s.InSync && len(n.flows()) == empty+s.Others+forAWhile() }
	check := func(what string) {
		t.Helper()
		eventually(t, what+": those with our cookie are removed", ours)
		eventually(t, what+": the rest is counted", understood)
		if s := r.Status(); s.Others == 0 || s.Others+forAWhile() != n.flowsWith("cookie="+theirs+",") {
			t.Errorf("%s: status %+v with\n%s", what, s, strings.Join(n.flows(), "\n"))
		}
	}
	check("by an audit")
	r.stop()
	write(withOurs, 1000, all)
	r = n.start()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network}})
	check("by a restart")
	// A flow in the place of a wanted one is replaced.
	r.give(drivers.Change{Set: []pipeline.Object{remote(9, 0)}})
	before := n.flowsWith("02:02:0a:01:00:09")
	n.Ofctl("--strict", "mod-flows", bridge, "table=20,priority=1,actions=exit")
	eventually(t, "the changed flow is back", func() bool { return n.flowsWith("actions=exit") <= 1 && r.Status().InSync })
	r.give(drivers.Change{Remove: []pipeline.Key{remote(9, 0).Key()}})
	if after := n.flowsWith("02:02:0a:01:00:09"); before == 0 || after != 0 {
		t.Errorf("%d flows of an endpoint, %d after its end", before, after)
	}
}

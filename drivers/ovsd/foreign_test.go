package ovsd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// notOurs are actions that we never write; for most of them we have no words.
var notOurs = []string{
	"exit", "note:01.02.03", "enqueue(3,7)", "sample(probability=100,collector_set_id=1,obs_domain_id=2,obs_point_id=3)",
	"push:reg0[0..15]", "push_mpls:0x8847", "check_pkt_larger(1500)->reg0[0]", "multipath(eth_src,50,modulo_n,4,0,reg0[])",
	"learn(table=10,idle_timeout=10,NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])",
	"bundle(eth_src,50,hrw,ofport,members:4,8)", "clone(exit,note:05)", "encap(nsh(md_type=1))",
	"controller(userdata=01.02.03,pause)", "fin_timeout(idle_timeout=10)", "ct_clear", "resubmit(5,6)",
}

// A flow of anything that ovs-ofctl can write does not keep the driver from its
// work. What it understands, or what has our cookie, it removes; what is of
// somebody else and not understood it leaves alone and counts.
func TestFlowsOfOthersDoNotStopTheDriver(t *testing.T) {
	n := newNode(t)
	n.config.AuditInterval = 50 * time.Millisecond
	r := n.start()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network}})
	empty := len(n.flows())
	for i, action := range notOurs {
		match := ""
		if strings.HasPrefix(action, "fin_timeout") {
			match = "tcp,"
		}
		for _, owner := range []string{"0x7", "0xc003000000000007"} {
			n.Ofctl("add-flow", bridge, fmt.Sprintf("cookie=%s,table=200,priority=%d,%sreg1=%d,actions=%s", owner, 100+i, match, len(owner), action))
		}
	}
	ours := func() bool { return n.flowsWith("cookie=0xc003000000000007") == 0 }
	understood := func() bool { s := r.Status(); return s.InSync && len(n.flows()) == empty+s.Others }
	check := func(what string) {
		t.Helper()
		eventually(t, what+": those with our cookie are removed", ours)
		eventually(t, what+": the rest is counted", understood)
		if s := r.Status(); s.Others == 0 || s.Others != n.flowsWith("cookie=0x7,") {
			t.Errorf("%s: status %+v with\n%s", what, s, strings.Join(n.flows(), "\n"))
		}
	}
	check("by an audit")
	r.stop()
	for i, action := range notOurs[:4] {
		n.Ofctl("add-flow", bridge, fmt.Sprintf("cookie=0xc003000000000007,table=200,priority=%d,reg2=1,actions=%s", 100+i, action))
	}
	r = n.start()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network}})
	check("by a restart")
	// One in the place of a flow that is wanted gives way.
	r.give(drivers.Change{Set: []pipeline.Object{remote(9, 0)}})
	before := n.flowsWith("02:02:0a:01:00:09")
	n.Ofctl("--strict", "mod-flows", bridge, "table=20,priority=1,actions=exit")
	eventually(t, "the changed flow is back", func() bool { return n.flowsWith("actions=exit") <= 1 && r.Status().InSync })
	r.give(drivers.Change{Remove: []pipeline.Key{remote(9, 0).Key()}})
	if after := n.flowsWith("02:02:0a:01:00:09"); before == 0 || after != 0 {
		t.Errorf("%d flows of an endpoint, %d after its end", before, after)
	}
}

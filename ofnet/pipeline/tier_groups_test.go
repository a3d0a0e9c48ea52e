package pipeline

import (
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
)

// What a rule of groups denies, no tier can allow. What it allows is evaluated by the tiers as if there were no
// such rule. The reason of a dropped packet says which of them denied it.
func TestTiersAreAskedAboutWhatGroupsAllow(t *testing.T) {
	c := startCluster(t, web1, db2)
	const sql = 5432
	c.pod(db2).serve(sql)
	denies := Rule{ID: "d", Priority: 10, DstGroup: db2.Group, Protocol: openflow.ProtoTCP, DstPort: sql}
	allows := Rule{ID: "a", Priority: 10, DstGroup: db2.Group, Allow: true}
	judging := []Reason{reasonDenied, reasonFirstTier, reasonPolicyTier, reasonLastTier, reasonNotAdmitted}
	const judged, isolated = JudgesIn, JudgesIn | IsolatesIn
	for _, s := range []struct {
		name  string
		group Rule
		tiers Tiers // of the receiver
		rules []TierRule
		why   Reason // of the dropped packets; 0: none
	}{
		{"groups deny, the first tier accepts", denies, judged, []TierRule{allowing(false, classDB2, inTier(FirstTier, 0, Accept))}, reasonDenied},
		{"groups deny, a policy allows", denies, isolated, []TierRule{allowing(false, classDB2)}, reasonDenied},
		{"groups allow, and no policy", allows, isolated, nil, reasonPolicyTier},
		{"groups allow, the first tier denies", allows, judged, []TierRule{allowing(false, classDB2, inTier(FirstTier, 0, Deny))}, reasonFirstTier},
		{"groups allow, the last tier denies", allows, judged, []TierRule{allowing(false, classDB2, inTier(LastTier, 0, Deny))}, reasonLastTier},
		{"groups allow, and a policy", allows, isolated, []TierRule{allowing(false, classDB2)}, 0},
		{"groups allow, and nothing is judged", allows, 0, nil, 0},
	} {
		c.judgeBeside([]Rule{s.group}, map[string]Tiers{db2.ID: s.tiers}, s.rules...)
		want, before := s.why == 0, map[Reason]uint64{}
		for _, why := range judging {
			before[why] = c.thrownAway(why)
		}
		if got := c.pod(web1).connects(db2.IPv4, sql, want); got != want {
			t.Errorf("%s: %v, want %v", s.name, got, want)
		}
		if got := c.pod(web1).connects(db2.IPv6, sql, want); got != want {
			t.Errorf("%s: %v over IPv6, want %v", s.name, got, want)
		}
		for _, why := range judging {
			if why == s.why {
				testkit.Eventually(t, time.Minute, s.name+": it is told why packets are thrown away", func() bool {
					return c.thrownAway(why) >= before[why]+2 // one of each IP family
				})
			} else if got := c.thrownAway(why); got != before[why] {
				t.Errorf("%s: %d packets are thrown away for reason %d, too", s.name, got-before[why], why)
			}
		}
	}
}

// thrownAway returns the number of packets that all nodes have dropped for a reason.
func (c *cluster) thrownAway(why Reason) (packets uint64) {
	for _, n := range c.nodes {
		packets += n.dropped(c.t, why)
	}
	return packets
}

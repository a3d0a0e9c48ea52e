package pipeline

import (
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// What a rule of groups denies no tier lets pass. What it allows the tiers are asked about, as if there were no such rule.
func TestTiersAreAskedAboutWhatGroupsAllow(t *testing.T) {
	c := startCluster(t, web1, db2)
	const sql = 5432
	c.pod(db2).serve(sql)
	denies := Rule{ID: "d", Priority: 10, DstGroup: db2.Group, Protocol: openflow.ProtoTCP, DstPort: sql}
	allows := Rule{ID: "a", Priority: 10, DstGroup: db2.Group, Allow: true}
	const judged, isolated = JudgesIn, JudgesIn | IsolatesIn
	for _, s := range []struct {
		name  string
		group Rule
		tiers Tiers // of the receiver
		rules []TierRule
		want  bool
	}{
		{"groups deny, the first tier accepts", denies, judged, []TierRule{allowing(false, classDB2, inTier(FirstTier, 0, Accept))}, false},
		{"groups deny, a policy allows", denies, isolated, []TierRule{allowing(false, classDB2)}, false},
		{"groups allow, and no policy", allows, isolated, nil, false},
		{"groups allow, the first tier denies", allows, judged, []TierRule{allowing(false, classDB2, inTier(FirstTier, 0, Deny))}, false},
		{"groups allow, the last tier denies", allows, judged, []TierRule{allowing(false, classDB2, inTier(LastTier, 0, Deny))}, false},
		{"groups allow, and a policy", allows, isolated, []TierRule{allowing(false, classDB2)}, true},
		{"groups allow, and nothing is judged", allows, 0, nil, true},
	} {
		c.judgeBeside([]Rule{s.group}, map[string]Tiers{db2.ID: s.tiers}, s.rules...)
		if got := c.pod(web1).connects(db2.IPv4, sql, s.want); got != s.want {
			t.Errorf("%s: %v, want %v", s.name, got, s.want)
		}
		if got := c.pod(web1).connects(db2.IPv6, sql, s.want); got != s.want {
			t.Errorf("%s: %v over IPv6, want %v", s.name, got, s.want)
		}
	}
}

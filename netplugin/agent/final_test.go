package agent

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// A rule belongs to the direction of the packets that begin connections; rules for answers are not final.
func TestRulesOfATenantWhoseModeIsFinalEndTheJudgementInTheirDirection(t *testing.T) {
	n := blueHere(t)
	rules := map[string]pipeline.Ends{blueRule: pipeline.EndsIn}
	for direction, ends := range map[string]pipeline.Ends{"inTx": pipeline.EndsNone, "outTx": pipeline.EndsOut, "outRx": pipeline.EndsNone} {
		id := strings.TrimSuffix(blueRule, "inRx") + direction
		n.put(ruleKey(id), ruleValue(id, "deny")).expect("a rule", "+rule "+id)
		rules[id] = ends
	}
	sees := func(when string, final bool) {
		t.Helper()
		for id, ends := range rules {
			if !final {
				ends = pipeline.EndsNone
			}
			if rule, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindRule, ID: id}); err != nil || rule.(pipeline.Rule).Ends != ends {
				t.Errorf("%s: %+v, %v, want it to end %d", when, rule, err, ends)
			}
		}
	}
	const in, out = "+rule blue:front:blue:p:blue:p:1:inRx", "+rule blue:front:blue:p:blue:p:1:outTx"
	sees("no mode", false)
	n.put(vrfKey("red"), `{"vrf":2,"policyMode":"final"}`).expect("of another tenant")
	n.put(vrfKey("blue"), `{"vrf":1,"policyMode":"final"}`).expect("the mode is final", in, out)
	sees("final", true)
	n.put(vrfKey("blue"), `{"vrf":1,"policyMode":"later"}`).expect("a mode that nobody knows", in, out)
	sees("unknown", false)
	n.put(vrfKey("blue"), `{"vrf":1,"policyMode":"final"}`).expect("final again", in, out)
	n.del(vrfKey("blue"))
	n.put(vrfKey("blue"), `{"vrf":1}`)
	sees("without a mode, after none", false)
}

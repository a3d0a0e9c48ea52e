package master

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// rules are those of a datapath by their keys.
type rules map[string]mastercfg.CfgPolicyRule

// packet is what the rules of this test look at.
type packet struct{ from, to int }

// denied is the verdict of the rule with the highest priority that matches; of
// two with one priority the one that denies. What none matches passes.
func (r rules) denied(p packet) bool {
	highest, verdict := 0, false
	for _, rule := range r {
		match := (rule.SrcEndpointGroup == 0 || rule.SrcEndpointGroup == p.from) && (rule.DstEndpointGroup == 0 || rule.DstEndpointGroup == p.to)
		deny := rule.Action == "deny"
		if match && (rule.Priority > highest || rule.Priority == highest && deny) {
			highest, verdict = rule.Priority, deny
		}
	}
	return verdict
}

// step is one change of a plan.
type step struct {
	key           string
	before, after []byte
}

func encoded(t *rapid.T, r rules, key string) []byte {
	rule, ok := r[key]
	if !ok {
		return nil
	}
	value, err := json.Marshal(rule)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// Whatever rules replace others, no packet passes at any moment that is denied before and after.
func TestNothingDeniedPassesWhileRulesAreReplaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		group := rapid.IntRange(0, 2)
		draw := func(action string) mastercfg.CfgPolicyRule {
			return mastercfg.CfgPolicyRule{Priority: rapid.IntRange(1, 4).Draw(t, "priority"), Action: action,
				SrcEndpointGroup: group.Draw(t, "from"), DstEndpointGroup: group.Draw(t, "to")}
		}
		before, after := rules{}, rules{}
		action := rapid.SampledFrom([]string{"allow", "deny"})
		for i := range rapid.IntRange(1, 6).Draw(t, "rules") {
			key := fmt.Sprint(mastercfg.PolicyRulePrefix, i)
			was, is := action.Draw(t, "before"), action.Draw(t, "after")
			inBefore, inAfter := rapid.Bool().Draw(t, "is before"), rapid.Bool().Draw(t, "is after")
			if inBefore {
				before[key] = draw(was)
			}
			if inAfter {
				after[key] = draw(is)
			}
		}
		keys := maps.Clone(before)
		maps.Copy(keys, after)
		var steps []step
		for key := range keys {
			s := step{key, encoded(t, before, key), encoded(t, after, key)}
			if string(s.before) != string(s.after) {
				steps = append(steps, s)
			}
		}
		slices.SortFunc(steps, func(a, b step) int {
			return placeOf(a.key, a.before, a.after) - placeOf(b.key, b.before, b.after)
		})
		together := func(s step) bool {
			_, is := order(s.key, s.before, s.after)
			return is
		}
		now := maps.Clone(before)
		for i, s := range steps {
			if rule, ok := after[s.key]; ok {
				now[s.key] = rule
			} else {
				delete(now, s.key)
			}
			if together(s) && i+1 < len(steps) && together(steps[i+1]) {
				continue // in the same transaction
			}
			for from := 1; from <= 2; from++ {
				for to := 1; to <= 2; to++ {
					if p := (packet{from, to}); before.denied(p) && after.denied(p) && !now.denied(p) {
						t.Fatalf("%+v passes after %d of %d steps\nbefore %+v\nnow %+v\nafter %+v", p, i+1, len(steps), before, now, after)
					}
				}
			}
		}
	})
}

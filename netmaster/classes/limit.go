package classes

import (
	"fmt"
	"maps"
	"slices"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// MaxRules is how many rules of policies there can be about a class, in one direction: a flow of a
// switch names all of them, and the message for it has 64 KiB.
const MaxRules = 4000

// limit leaves out rules of policies that are too many about a class, those whose ids come last. As the policies
// isolate the class, what their rules would allow is denied. It returns those of which rules were not left out before.
func (e *Engine) limit(number uint16) (more []string) {
	before, now := e.left[number], e.tooMany(number)
	for _, ids := range []map[string]struct{}{before, now} {
		for id := range ids {
			e.dirtyPolicies[id] = struct{}{}
		}
	}
	for id := range now {
		if _, known := before[id]; !known {
			more = append(more, id)
		}
	}
	if delete(e.left, number); now != nil {
		e.left[number] = now
	}
	return more
}

// tooMany are the policies for whose rules about a class there is no room.
func (e *Engine) tooMany(number uint16) (ids map[string]struct{}) {
	c := e.classes[number]
	if c == nil {
		return nil
	}
	rules, total := map[string][2]int{}, 0
	for _, s := range c.selectors {
		for id := range s.policies {
			if p := e.policies[id]; p != nil && p.subject == s && p.spec.Tier == Isolating {
				rules[id] = p.spec.size()
				total += rules[id][0] + rules[id][1]
			}
		}
	}
	if total <= MaxRules {
		return nil
	}
	var used [2]int
	for _, id := range slices.Sorted(maps.Keys(rules)) {
		next := [2]int{used[0] + rules[id][0], used[1] + rules[id][1]}
		if next[0] <= MaxRules && next[1] <= MaxRules {
			used = next
			continue
		}
		if ids == nil {
			ids = map[string]struct{}{}
		}
		ids[id] = struct{}{}
	}
	return ids
}

// size is how many rules a policy becomes, out of its subjects and into them. A port with a name
// is one of its own.
func (p Policy) size() (rules [2]int) {
	for _, r := range p.Rules {
		direction := 0
		if !r.Out {
			direction = 1
		}
		rules[direction]++
		for _, port := range r.Ports {
			if port.Name != "" {
				rules[direction]++
			}
		}
	}
	return rules
}

// Limits of ordered tiers.
const (
	rulesOfPolicy = 25   // in each direction, as the API has it
	lastPlace     = 2359 // the last of which all rules have ranks in a switch (pipeline.MaxRank)
)

// unranked tells why the rules of a policy have no ranks.
func (p *policy) unranked() string {
	if p.place > lastPlace {
		return fmt.Sprintf("the %d places of its tier are taken by those of lower priority", lastPlace+1)
	}
	count := map[bool]int{}
	for _, r := range p.spec.Rules {
		count[r.Out]++
	}
	if most := max(count[false], count[true]); most > rulesOfPolicy {
		return fmt.Sprintf("it has %d rules for a direction, and may have %d", most, rulesOfPolicy)
	}
	return ""
}

// closed denies everything in a direction.
func closed(r mastercfg.TierRule, out bool) mastercfg.TierRule {
	r.Out, r.Verdict, r.AnyPeer, r.Peers, r.Nets, r.Ports = out, string(Deny), true, nil, nil, nil
	return r
}

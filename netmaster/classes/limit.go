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
// isolate the class, what their rules would allow is denied.
func (e *Engine) limit() {
	for number := range e.crowded() {
		old, now := e.left[number], e.tooMany(number)
		for _, ids := range []map[string]struct{}{old, now} {
			for id := range ids {
				e.dirtyPolicies[id] = struct{}{}
			}
		}
		if delete(e.left, number); now != nil {
			e.left[number] = now
		}
	}
}

// crowded are the classes about which there may be another number of rules than before: those that have changed, and
// the subjects of policies for whose names of ports there are other numbers.
func (e *Engine) crowded() map[uint16]struct{} {
	all := map[uint16]struct{}{}
	maps.Copy(all, e.dirtyClasses)
	for id := range e.dirtyPolicies {
		p := e.policies[id]
		if p == nil || p.spec.Tier != Isolating {
			continue
		}
		if begun := e.countEgressRules(p); begun != p.begun {
			p.begun = begun
			maps.Copy(all, p.subject.classes)
		}
	}
	return all
}

// countEgressRules counts the rules that a policy becomes for egress. A port name is a rule for each number that it has in the
// classes of the peers.
func (e *Engine) countEgressRules(p *policy) (rules int) {
	for i, r := range p.spec.Rules {
		switch {
		case !r.Out:
		case slices.ContainsFunc(r.Ports, func(port Port) bool { return port.Name != "" }):
			rules += len(e.expand(mastercfg.TierRule{}, p, i))
		default:
			rules++
		}
	}
	return rules
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
				rules[id] = [2]int{p.begun, p.accepted(c)}
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

// accepted is how many rules a policy becomes about what a class of its subjects accepts. A name of ports is a rule
// for each number that it has in the class.
func (p *policy) accepted(c *class) (rules int) {
	for _, r := range p.spec.Rules {
		if r.Out {
			continue
		}
		numbered := r.Ports == nil
		for _, port := range r.Ports {
			numbered = numbered || port.Name == ""
			for _, of := range c.ports {
				if port.matchesName(of) {
					rules++
				}
			}
		}
		if numbered {
			rules++
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

// closed is what a policy says of which nothing can be said but that it allows nothing. One that isolates
// needs no rule for that.
func (p *policy) closed(base mastercfg.TierRule) []mastercfg.TierRule {
	all := []mastercfg.TierRule{}
	for _, direction := range []struct{ about, out bool }{{p.spec.In, false}, {p.spec.Out, true}} {
		if direction.about && p.spec.Tier != Isolating {
			all = append(all, closed(base, direction.out))
		}
	}
	return all
}

// closed denies everything in a direction.
func closed(r mastercfg.TierRule, out bool) mastercfg.TierRule {
	r.Out, r.Verdict, r.AnyPeer, r.Peers, r.Nets, r.Excepts, r.Names, r.Ports = out, string(Deny), true, nil, nil, nil, nil, nil
	return r
}

// maxRecord is how large the rules of a policy are at most. The store takes no larger record in its journal,
// and one that it refuses would hold up those of all other policies, which are written with it.
const maxRecord = 768 << 10

// fit tells whether rules take no more than that. Texts of networks and domains are counted as they are.
func fit(rules []mastercfg.TierRule) bool {
	const ofRule, ofPorts, ofClass, ofExcept = 100, 45, 6, 25 // what is around the lists, and at most of each item
	bytes := 0
	for _, r := range rules {
		bytes += ofRule + ofPorts*len(r.Ports) + ofClass*(len(r.Subjects)+len(r.Peers)+len(r.Serving))
		all := [][]string{r.Nets, r.Names}
		for _, x := range r.Excepts {
			all = append(all, []string{x.Net}, x.Except)
			bytes += ofExcept
		}
		for _, texts := range all {
			for _, text := range texts {
				bytes += len(text) + len(`"",`)
			}
		}
		if bytes > maxRecord {
			return false
		}
	}
	return true
}

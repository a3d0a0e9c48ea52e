package classes

import (
	"fmt"
	"maps"
	"slices"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// MaxRules limits the rules of policies about a class, in one direction: a flow of the switch names all of them,
// and its message is limited to 64 KiB.
const MaxRules = 4000

// limit omits rules of policies with too many rules about a class, those with the last ids. As the policies
// isolate the class, traffic that only their rules allow is denied.
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

// crowded returns the classes whose number of rules may have changed: changed classes, and the subjects of
// policies whose port names have other numbers now.
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

// countEgressRules returns the number of egress rules of a policy. A port name counts once for each number that it
// has in the classes of the peers.
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

// tooMany returns the policies whose rules about a class are omitted.
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

// accepted returns the number of a policy's ingress rules about a class of its subjects. A port name counts once
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
	rulesOfPolicy = 25   // in each direction, by the API
	lastPlace     = 2359 // the last place whose rules all have ranks in a switch (pipeline.MaxRank)
)

// unranked returns why the rules of a policy have no ranks; empty if they have.
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

// closed returns the rules in place of those of a policy that cannot be written: they deny everything. A policy
// that isolates needs none for that.
func (p *policy) closed(base mastercfg.TierRule) []mastercfg.TierRule {
	all := []mastercfg.TierRule{}
	for _, direction := range []struct{ about, out bool }{{p.spec.In, false}, {p.spec.Out, true}} {
		if direction.about && p.spec.Tier != Isolating {
			all = append(all, closed(base, direction.out))
		}
	}
	return all
}

// closed returns a rule that denies everything in a direction.
func closed(r mastercfg.TierRule, out bool) mastercfg.TierRule {
	r.Out, r.Verdict, r.AnyPeer, r.Peers, r.Nets, r.Excepts, r.Names, r.Ports = out, string(Deny), true, nil, nil, nil, nil, nil
	return r
}

// maxRecord limits the size of a policy's rules. The store accepts no larger record in its journal, and a refused
// record would block those of all other policies, which are written together.
const maxRecord = 768 << 10

// fit reports whether rules are within that limit. Texts of networks and domains count with their own length.
func fit(rules []mastercfg.TierRule) bool {
	const ofRule, ofPorts, ofClass, ofExcept = 100, 45, 6, 25 // per rule, and at most per item of its lists
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

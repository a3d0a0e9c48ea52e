package classes

import (
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Changes are the records to write.
type Changes struct {
	Pods     map[string]PodClass             // by namespace/name
	Policies map[string]*mastercfg.K8sPolicy // by id; nil: delete
	Classes  map[uint16]*mastercfg.K8sClass  // nil: delete
	Moved    bool                            // connections of existing pods have to be evaluated again
	TooLarge map[string]string               // by policy id: its part that is too large, which allows nothing, or denies everything
}

// PodClass is the class of a pod. When it is written another pod may have the name.
type PodClass struct {
	UID    string
	Number uint16
}

// Any reports whether there is anything to write.
func (c Changes) Any() bool { return len(c.Pods)+len(c.Policies)+len(c.Classes) > 0 || c.Moved }

// Take returns what has changed since the last call. The caller must then call Written or Failed.
func (e *Engine) Take() Changes {
	e.classifyWaiting()
	c := Changes{Pods: map[string]PodClass{}, Policies: map[string]*mastercfg.K8sPolicy{}, Classes: map[uint16]*mastercfg.K8sClass{}, Moved: e.moved,
		TooLarge: map[string]string{}}
	e.limit()
	for key := range e.dirtyPods {
		c.Pods[key] = PodClass{e.pods[key].uid, e.pods[key].class}
	}
	for id := range e.dirtyPolicies {
		e.findStrangers(id)
		c.Policies[id] = nil
		if p := e.policies[id]; p != nil {
			rules, tooLarge := e.rules(id)
			c.Policies[id] = &mastercfg.K8sPolicy{Spec: Fingerprint(p.spec), Rules: rules}
			if tooLarge != "" {
				c.TooLarge[id] = tooLarge
			}
		}
	}
	for number := range e.dirtyClasses {
		c.Classes[number] = e.record(number)
	}
	e.dirtyPods, e.dirtyPolicies, e.dirtyClasses = map[string]struct{}{}, map[string]struct{}{}, map[uint16]struct{}{} // clear would retain large maps
	e.moved = false
	return c
}

// Written confirms that changes are written.
func (e *Engine) Written(c Changes) {
	for number := range c.Classes {
		if _, again := e.dirtyClasses[number]; !again && e.classes[number] != nil {
			e.classes[number].written = true
		}
	}
}

// Failed reports that changes are not written, or possibly not.
func (e *Engine) Failed(c Changes) {
	for key := range c.Pods {
		if e.pods[key] != nil {
			e.dirtyPods[key] = struct{}{}
		}
	}
	for id := range c.Policies {
		e.dirtyPolicies[id] = struct{}{}
	}
	for number := range c.Classes {
		e.dirtyClasses[number] = struct{}{}
	}
	e.moved = e.moved || c.Moved
}

// Fingerprint returns a text that changes with the content of a policy. It is stored: a new field must not change
// the fingerprint of a policy without it, or an upgrade would look like a change of every policy.
func Fingerprint(p Policy) string {
	p.Rules = slices.Clone(p.Rules)
	for i := range p.Rules {
		p.Rules[i].Excepts = nil // already subtracted from Nets
	}
	text := strings.NewReplacer(" Names:[]", "", " Excepts:[]", "").Replace(fmt.Sprintf("%+v", p))
	h := fnv.New64a()
	_, _ = io.WriteString(h, text) // never fails, by the contract of hash.Hash
	return strconv.FormatUint(h.Sum64(), 36)
}

// Recorded adds a class of the records, which the engine may not know.
func (e *Engine) Recorded(number uint16) { e.dirtyClasses[number] = struct{}{} }

// record returns the record of a class: the rules about its pods.
func (e *Engine) record(number uint16) *mastercfg.K8sClass {
	c := e.classes[number]
	if c == nil || number == nobodys {
		return nil
	}
	var r mastercfg.K8sClass
	for _, s := range c.selectors {
		for id := range s.policies {
			p := e.policies[id]
			if p == nil || p.subject != s {
				continue
			}
			r.JudgesIn, r.JudgesOut = r.JudgesIn || p.spec.In, r.JudgesOut || p.spec.Out
			if p.spec.Tier == Isolating {
				r.IsolatesIn, r.IsolatesOut = r.IsolatesIn || p.spec.In, r.IsolatesOut || p.spec.Out
			}
		}
	}
	return &r
}

// rules returns the rules of a policy, about classes; never nil. A policy that is too large allows nothing; in an
// ordered tier it denies everything, or its part that is too large does. tooLarge names that part.
func (e *Engine) rules(id string) (all []mastercfg.TierRule, tooLarge string) {
	p := e.policies[id]
	ordered := p.spec.Tier != Isolating
	all = []mastercfg.TierRule{}
	base := mastercfg.TierRule{Tier: int(p.spec.Tier), Subjects: slices.DeleteFunc(slices.Sorted(maps.Keys(p.subject.classes)), func(number uint16) bool {
		_, left := e.left[number][id]
		return left
	})}
	if len(base.Subjects) == 0 {
		return all, ""
	}
	if ordered {
		base.Rank = p.place * rulesOfPolicy
		if tooLarge = p.unranked(); tooLarge != "" {
			return p.closed(base), tooLarge
		}
	}
	count := map[bool]int{}
	for i, r := range p.spec.Rules {
		rule := base
		if ordered {
			rule.Rank += count[r.Out]
			count[r.Out]++
		}
		split := e.expand(rule, p, i)
		if ordered && len(split) > MaxRules {
			tooLarge = fmt.Sprintf("names of ports in a rule stand for more than %d numbers", MaxRules)
			if split = nil; r.Verdict != Accept {
				split = append(split, closed(rule, r.Out))
			}
		}
		all = append(all, split...)
	}
	all = slices.DeleteFunc(all, isEmptyRule)
	if !fit(all) {
		return p.closed(base), fmt.Sprintf("its rules about classes of pods and networks take more than %d KiB, and it allows nothing", maxRecord>>10)
	}
	return all, tooLarge
}

// expand makes rules about classes from one rule of a policy; base has its subjects and its order.
func (e *Engine) expand(base mastercfg.TierRule, p *policy, i int) []mastercfg.TierRule {
	r := p.spec.Rules[i]
	base.Out, base.Verdict, base.AnyPeer, base.Nets = r.Out, string(r.Verdict), r.AnyPeer, texts(r.Nets)
	base.Names = r.Names
	for _, x := range r.Excepts {
		base.Excepts = append(base.Excepts, mastercfg.TierExcept{Net: x.Net.String(), Except: texts(x.Except)})
	}
	switch {
	case r.AnyPeer:
	case e.anyPod && r.isAnyPod():
		base.AnyPod, base.AnyPeer = true, r.Verdict == Deny
	default:
		base.Peers = union(p.peers[i])
	}
	return e.withPorts(base, r.Ports)
}

// withPorts makes a rule for each of the ports; a port name has different numbers for different classes.
func (e *Engine) withPorts(rule mastercfg.TierRule, ports []Port) (all []mastercfg.TierRule) {
	if ports == nil {
		return []mastercfg.TierRule{rule}
	}
	numbered := rule
	for _, p := range ports {
		if p.Name == "" {
			numbered.Ports = append(numbered.Ports, mastercfg.TierPorts{Protocol: p.Protocol, First: p.First, Last: p.Last})
			continue
		}
		all = append(all, e.withName(rule, p)...)
	}
	if len(numbered.Ports) > 0 {
		all = append([]mastercfg.TierRule{numbered}, all...)
	}
	return all
}

// withName makes a rule for each number of a port name. If the rule is about connections that subjects open to
// addresses, the peers may be of any class.
func (e *Engine) withName(rule mastercfg.TierRule, name Port) (all []mastercfg.TierRule) {
	if rule.Out && (rule.AnyPod || len(rule.Peers) > 0) && len(rule.Nets) > 0 {
		pods, nets := rule, rule
		pods.Nets, nets.Peers, nets.AnyPod, nets.AnyPeer = nil, nil, false, false
		return append(e.withName(pods, name), e.withName(nets, name)...)
	}
	serves := rule.Subjects
	if rule.Out {
		serves = rule.Peers
		if rule.AnyPeer || rule.AnyPod || len(rule.Nets) > 0 {
			serves = slices.Sorted(maps.Keys(e.classes))
		}
	}
	by := map[NamedPort][]uint16{}
	for _, number := range serves {
		for _, p := range e.classes[number].ports {
			if name.matchesName(p) {
				by[p] = append(by[p], number)
			}
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(by), comparePorts) {
		r := rule
		r.Ports = []mastercfg.TierPorts{{Protocol: p.Protocol, First: p.Number, Last: p.Number}}
		switch {
		case !rule.Out:
			r.Subjects = by[p]
		case len(rule.Nets) > 0:
			r.Serving = by[p]
		default:
			r.AnyPeer, r.AnyPod, r.Peers = false, false, by[p]
		}
		all = append(all, r)
	}
	return all
}

func union(selectors []*selector) []uint16 {
	all := map[uint16]struct{}{}
	for _, s := range selectors {
		maps.Copy(all, s.classes)
	}
	return slices.Sorted(maps.Keys(all))
}

func texts(nets []netip.Prefix) (all []string) {
	for _, n := range nets {
		all = append(all, n.String())
	}
	return all
}

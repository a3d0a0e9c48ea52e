package classes

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// policy is a policy and the selectors that it uses.
type policy struct {
	spec    Policy
	subject *selector
	peers   [][]*selector // by rule
	place   int           // among those of its tier, if that is ordered
	begun   int           // number of its egress rules, as last counted
}

// SetPolicy sets the content of a policy.
func (e *Engine) SetPolicy(id string, spec Policy) {
	if old, known := e.policies[id]; known && reflect.DeepEqual(old.spec, spec) {
		return
	}
	before := e.policies[id]
	p := &policy{spec: spec, subject: e.use(id, spec.Subject)}
	if before != nil {
		p.place = before.place
	}
	for _, r := range spec.Rules {
		var peers []*selector
		for _, s := range r.Peers {
			peers = append(peers, e.use(id, s))
		}
		p.peers = append(p.peers, peers)
		for _, port := range r.Ports {
			e.usePort(id, port.Name)
		}
	}
	e.policies[id] = p
	e.dirtyPolicies[id] = struct{}{}
	e.releaseUnused(id, before)
	e.touchSubjects(p.subject)
	e.rank(before, p)
}

// RemovePolicy removes a policy. Its record is deleted even if the engine does not know the policy.
func (e *Engine) RemovePolicy(id string) {
	before := e.policies[id]
	delete(e.policies, id)
	e.dirtyPolicies[id] = struct{}{}
	e.releaseUnused(id, before)
	e.rank(before, nil)
}

// use adds a policy's use of a selector. A new selector may split classes.
func (e *Engine) use(id string, spec PodSelector) *selector {
	text := spec.text()
	s := e.selectors[text]
	if s == nil {
		e.lastID++
		s = &selector{id: e.lastID, spec: spec, policies: map[string]struct{}{}, classes: map[uint16]struct{}{}}
		e.selectors[text] = s
		into := places(s, e.namespaces)
		e.reach.add(s, into)
		e.split(into, func(p *pod) bool { return spec.Pods.Matches(p.labels) })
	}
	s.policies[id] = struct{}{}
	return s
}

// usePort adds a policy's use of a port name, which may split classes.
func (e *Engine) usePort(id, name string) {
	if name == "" {
		return
	}
	users := e.named[name]
	if users == nil {
		users = map[string]struct{}{}
		e.named[name] = users
		e.split(slices.Collect(maps.Keys(e.podsIn)), func(p *pod) bool {
			return slices.ContainsFunc(p.ports, func(port NamedPort) bool { return port.Name == name })
		})
	}
	users[id] = struct{}{}
}

// split classifies the pods of namespaces again for a new selector or port name. That does not count as a move:
// their rights change with the policy, if at all. A class whose pods are all concerned keeps its number.
func (e *Engine) split(namespaces []string, concerned func(*pod) bool) {
	moved, keys := e.moved, []string{}
	count := map[uint16]int{}
	for _, namespace := range namespaces {
		for key := range e.podsIn[namespace] {
			if p := e.pods[key]; concerned(p) {
				keys = append(keys, key)
				count[p.class]++
			}
		}
	}
	maps.DeleteFunc(count, func(number uint16, concerned int) bool {
		c := e.classes[number]
		return c == nil || c.members != concerned
	})
	slices.Sort(keys) // numbers are assigned in this order
	for _, key := range keys {
		p := e.pods[key]
		if _, all := count[p.class]; all {
			e.rename(p)
			delete(count, p.class) // the others have the same signature, or another class
		}
		e.reclassify(key, 0)
	}
	e.moved = moved
}

// rename gives a class the present signature of a member, unless another class has it. Rules name classes by
// number, so those of other policies remain unchanged.
func (e *Engine) rename(p *pod) {
	c := e.classes[p.class]
	signature, by, ports := e.selectedBy(p)
	if _, taken := e.numbers[signature]; taken || c.signature == signature || signature == "" {
		return
	}
	e.changeSignature(p.class, signature, by, ports)
}

// changeSignature changes the signature of a class.
func (e *Engine) changeSignature(number uint16, signature string, by map[uint32]*selector, ports []NamedPort) {
	c := e.classes[number]
	for _, s := range c.selectors {
		delete(s.classes, number)
	}
	if e.numbers[c.signature] == number {
		delete(e.numbers, c.signature)
	}
	c.signature, c.selectors, c.ports = signature, by, ports
	for _, s := range by {
		s.classes[number] = struct{}{}
	}
	if _, taken := e.numbers[signature]; !taken {
		e.numbers[signature] = number
	}
}

// releaseUnused removes a policy's use of selectors and port names. Those that no policy uses do not distinguish
// pods any more: classes that are equal then stay, except for pods that nothing selects.
func (e *Engine) releaseUnused(id string, before *policy) {
	if before == nil {
		return
	}
	e.touchSubjects(before.subject)
	still := map[*selector]bool{}
	if now := e.policies[id]; now != nil {
		for _, s := range now.all() {
			still[s] = true
		}
	}
	for _, s := range before.all() {
		if still[s] {
			continue
		}
		if delete(s.policies, id); len(s.policies) > 0 || e.selectors[s.spec.text()] != s {
			continue
		}
		delete(e.selectors, s.spec.text())
		e.reach.remove(s)
		for number := range maps.Clone(s.classes) {
			c := e.classes[number]
			by := maps.Clone(c.selectors)
			delete(by, s.id)
			e.reduce(number, by, c.ports)
		}
	}
	e.retirePorts(id, before)
}

// retirePorts does the same for port names.
func (e *Engine) retirePorts(id string, before *policy) {
	still := map[string]bool{}
	if now := e.policies[id]; now != nil {
		still = now.names()
	}
	for name := range before.names() {
		if still[name] {
			continue
		}
		if delete(e.named[name], id); len(e.named[name]) > 0 {
			continue
		}
		delete(e.named, name)
		for number, c := range maps.Clone(e.classes) {
			ports := slices.DeleteFunc(slices.Clone(c.ports), func(p NamedPort) bool { return p.Name == name })
			if len(ports) < len(c.ports) {
				e.reduce(number, c.selectors, ports)
			}
		}
	}
}

// reduce gives a class a shorter signature. If it is empty, its pods have no class.
func (e *Engine) reduce(number uint16, by map[uint32]*selector, ports []NamedPort) {
	e.changeSignature(number, signatureOf(by, ports), by, ports)
	if len(by)+len(ports) == 0 {
		e.release(number)
	}
}

// release removes all pods from a class whose signature is empty.
func (e *Engine) release(number uint16) {
	for key, p := range e.pods {
		if p.class == number {
			p.class = 0
			e.dirtyPods[key] = struct{}{}
		}
	}
	e.empty = slices.DeleteFunc(e.empty, func(n uint16) bool { return n == number })
	e.drop(number)
}

// all returns the selectors of a policy.
func (p *policy) all() []*selector {
	return append(slices.Concat(p.peers...), p.subject)
}

// names returns the port names that a policy uses.
func (p *policy) names() map[string]bool {
	all := map[string]bool{}
	for _, r := range p.spec.Rules {
		for _, port := range r.Ports {
			if port.Name != "" {
				all[port.Name] = true
			}
		}
	}
	return all
}

// touchSubjects marks the classes that match a selector for a check of their records.
func (e *Engine) touchSubjects(s *selector) {
	for number := range s.classes {
		e.classes[number].written = false
		e.dirtyClasses[number] = struct{}{}
	}
}

// rank assigns the ranks of the policies of an ordered tier again if their order may have changed. The rank is the
// priority, or the next free number, so that a policy which is added or removed changes only the ranks of those
// with the same priority.
func (e *Engine) rank(before, now *policy) {
	if before != nil && now != nil && before.spec.Tier == now.spec.Tier && before.spec.Priority == now.spec.Priority {
		return
	}
	for _, tier := range []Tier{First, Last} {
		if (before == nil || before.spec.Tier != tier) && (now == nil || now.spec.Tier != tier) {
			continue
		}
		next := 0
		for _, id := range e.inOrder(tier) {
			p := e.policies[id]
			place := min(max(next, p.spec.Priority), lastPlace+1)
			next = place + 1
			if p.place != place {
				p.place = place
				e.dirtyPolicies[id] = struct{}{}
			}
		}
	}
}

// inOrder returns the policies of a tier in order of evaluation: by priority, then by id.
func (e *Engine) inOrder(tier Tier) (ids []string) {
	for id, p := range e.policies {
		if p.spec.Tier == tier {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(e.policies[a].spec.Priority, e.policies[b].spec.Priority), strings.Compare(a, b))
	})
	return ids
}

func comparePorts(a, b NamedPort) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Number, b.Number))
}

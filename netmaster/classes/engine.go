// Package classes converts policies of Kubernetes to rules between classes of pods.
//
// A class is a set of pods that are equal to all policies: the same selectors match them, and they have the
// same numbers for the port names in policies. Every switch knows the pods of a class by the number of the
// class. So rules name few classes instead of many pods, and a pod that is added, removed or gets other labels
// changes only its own class. Pods that no selector matches have none: class 0.
//
//	pod, namespace, policy --Engine--> classes of pods, rules by policy
//
// The caller passes changed objects to the engine, and takes from it the records to write.
// The cost of a step depends on what has changed: a pod is compared with the selectors, a new
// selector with the pods, and rules are computed again only for policies that select one of
// the classes that were added or removed. The engine has all state in memory and does no I/O.
//
// There are numbers for 65,534 classes. When none is left, pods of further classes get a class
// whose record is never written, so they are isolated.
//
// A class that has lost its last pod is retained for a while, as its next pod often follows soon, unless pods wait
// for a number. Numbers stay the same under the next leader: it passes the recorded number of each pod to its
// engine, and SameFor compares the meaning of that number.
package classes

import (
	"encoding/binary"
	"maps"
	"slices"
)

// Engine computes classes from pods, namespaces and policies.
type Engine struct {
	pods       map[string]*pod // by namespace/name
	podsIn     map[string]map[string]struct{}
	namespaces map[string]map[string]string // labels
	selectors  map[string]*selector         // by their text
	reach      reach                        // the same by the namespaces that they may match
	policies   map[string]*policy
	named      map[string]map[string]struct{} // policies that use a port name
	classes    map[uint16]*class
	numbers    map[string]uint16 // of classes, by signature
	empty      []uint16          // classes without pods, the oldest first
	lastID     uint32
	lastNumber uint16

	dirtyPods     map[string]struct{}
	dirtyPolicies map[string]struct{}
	dirtyClasses  map[uint16]struct{}
	moved         bool // an existing pod has changed its class

	tenants map[string]int                 // number of pods of each
	strange map[string][]string            // tenants of peers by policy, as of the last Take
	left    map[uint16]map[string]struct{} // classes for which rules of these policies are omitted
	anyPod  bool                           // rules are written as ones about any pod
	most    uint16                         // the last number that a class can have
	nobody  map[string]struct{}            // pods whose class has no number
}

// Pod is the data of a pod that the engine needs.
type Pod struct {
	UID      string // distinguishes it from other pods with the same name
	Tenant   string
	Labels   map[string]string
	Ports    []NamedPort
	Recorded uint16 // class recorded for it; 0: none
	Classed  bool   // agents have that class: it was recorded before this engine started
}

// NamedPort is a port of a container.
type NamedPort struct {
	Name     string
	Protocol uint8
	Number   uint16
}

type pod struct {
	uid       string
	namespace string
	tenant    string
	labels    map[string]string
	ports     []NamedPort
	class     uint16
}

type selector struct {
	id       uint32
	spec     PodSelector
	policies map[string]struct{}
	classes  map[uint16]struct{}
}

type class struct {
	signature string
	selectors map[uint32]*selector
	ports     []NamedPort // only those named in policies
	members   int
	tenants   map[string]int // number of members of each
	written   bool
}

// nobodys is the class of pods whose own class has no number. It has no record and no rules.
const nobodys = 65535

// maxEmpty limits the retained classes without pods.
const maxEmpty = 64

// New returns an empty engine.
func New() *Engine {
	return &Engine{
		pods: map[string]*pod{}, podsIn: map[string]map[string]struct{}{}, namespaces: map[string]map[string]string{},
		selectors: map[string]*selector{}, reach: newReach(), policies: map[string]*policy{}, named: map[string]map[string]struct{}{},
		classes: map[uint16]*class{nobodys: {signature: "nobody's"}}, numbers: map[string]uint16{},
		tenants: map[string]int{}, strange: map[string][]string{}, left: map[uint16]map[string]struct{}{}, most: nobodys - 1, nobody: map[string]struct{}{},
		dirtyPods: map[string]struct{}{}, dirtyPolicies: map[string]struct{}{}, dirtyClasses: map[uint16]struct{}{},
	}
}

// SetNamespace sets the labels of a namespace. Pods of an unknown namespace match no namespace selector.
func (e *Engine) SetNamespace(name string, labels map[string]string) {
	if old, known := e.namespaces[name]; known && maps.Equal(old, labels) {
		return
	}
	e.namespaces[name] = maps.Clone(labels)
	if e.namespaces[name] == nil {
		e.namespaces[name] = map[string]string{}
	}
	e.reach.label(name, labels)
	for key := range e.podsIn[name] {
		e.reclassify(key, 0)
	}
}

// RemoveNamespace removes a namespace.
func (e *Engine) RemoveNamespace(name string) {
	delete(e.namespaces, name)
	e.reach.forget(name)
	for key := range e.podsIn[name] {
		e.reclassify(key, 0)
	}
}

// SetPod sets the data of a pod. Another pod with the same name is replaced.
func (e *Engine) SetPod(namespace, name string, now Pod) {
	key := namespace + "/" + name
	p, known := e.pods[key]
	if known && p.uid != now.UID {
		e.RemovePod(namespace, name)
		known = false
	}
	if known && p.tenant == now.Tenant && maps.Equal(p.labels, now.Labels) && slices.Equal(p.ports, now.Ports) {
		return
	}
	if !known {
		p = &pod{uid: now.UID, namespace: namespace}
		e.pods[key] = p
		if e.podsIn[namespace] == nil {
			e.podsIn[namespace] = map[string]struct{}{}
		}
		e.podsIn[namespace][key] = struct{}{}
		e.dirtyPods[key] = struct{}{}
	}
	e.settleTenant(p, now.Tenant)
	p.labels, p.ports = maps.Clone(now.Labels), slices.Clone(now.Ports)
	moved := e.moved
	e.reclassify(key, now.Recorded)
	if !known {
		e.moved = moved || now.Classed && now.Recorded != p.class
	}
}

// RemovePod removes a pod.
func (e *Engine) RemovePod(namespace, name string) {
	key := namespace + "/" + name
	p, known := e.pods[key]
	if !known {
		return
	}
	e.settleTenant(p, "")
	e.leave(p.class)
	delete(e.pods, key)
	delete(e.dirtyPods, key)
	delete(e.nobody, key)
	if delete(e.podsIn[namespace], key); len(e.podsIn[namespace]) == 0 {
		delete(e.podsIn, namespace)
	}
}

// Class returns the class of a pod. known is false if the record of the class is not written yet, or if uid is not
// the pod that the engine knows by that name.
func (e *Engine) Class(namespace, name, uid string) (number uint16, known bool) {
	p := e.pods[namespace+"/"+name]
	if p == nil || p.uid != uid || e.namespaces[namespace] == nil {
		return 0, false
	}
	return p.class, p.class == 0 || e.classes[p.class].written
}

// Revisit makes Take return the class of a pod again.
func (e *Engine) Revisit(namespace, name string) {
	if e.pods[namespace+"/"+name] != nil {
		e.dirtyPods[namespace+"/"+name] = struct{}{}
	}
}

// RevisitAll makes Take return everything again.
func (e *Engine) RevisitAll() {
	for key := range e.pods {
		e.dirtyPods[key] = struct{}{}
	}
	for id := range e.policies {
		e.dirtyPolicies[id] = struct{}{}
	}
	for number := range e.classes {
		e.dirtyClasses[number] = struct{}{}
	}
}

// maxNumbers limits the ports of a pod with the same name. Kubernetes requires the port names of a pod to differ,
// but does not check it across containers; every rule about the name multiplies by their number.
const maxNumbers = 10

// selectedBy returns the selectors that match a pod, and the resulting signature.
func (e *Engine) selectedBy(p *pod) (signature string, by map[uint32]*selector, ports []NamedPort) {
	by = map[uint32]*selector{}
	for s := range e.reach.into[p.namespace] {
		if s.spec.Pods.Matches(p.labels) {
			by[s.id] = s
		}
	}
	count := map[string]int{}
	for _, port := range p.ports {
		if _, used := e.named[port.Name]; used && count[port.Name] < maxNumbers {
			ports = append(ports, port)
			count[port.Name]++
		}
	}
	return signatureOf(by, ports), by, ports
}

// signatureOf returns a text that identifies a class: two pods with equal texts are in the same class. It is empty
// for class 0.
func signatureOf(by map[uint32]*selector, ports []NamedPort) string {
	var raw []byte
	for _, id := range slices.Sorted(maps.Keys(by)) {
		raw = binary.BigEndian.AppendUint32(raw, id)
	}
	if len(ports) == 0 {
		return string(raw)
	}
	slices.SortFunc(ports, comparePorts)
	raw = append(raw, 0, 0, 0, 0) // no selector has this id
	for _, p := range ports {
		raw = append(append(raw, p.Name...), 0, p.Protocol, byte(p.Number>>8), byte(p.Number))
	}
	return string(raw)
}

// reclassify determines the class of a pod; preferred is its number if that is free.
func (e *Engine) reclassify(key string, preferred uint16) {
	p := e.pods[key]
	signature, by, ports := e.selectedBy(p)
	if p.class != 0 && e.classes[p.class].signature == signature || p.class == 0 && signature == "" {
		return
	}
	number := e.join(signature, by, ports, preferred)
	if delete(e.nobody, key); number == nobodys {
		e.nobody[key] = struct{}{}
	}
	if number == p.class {
		return // there is still no number
	}
	e.classes[p.class].count(p.tenant, -1)
	e.leave(p.class)
	p.class = number
	e.classes[number].count(p.tenant, 1)
	e.dirtyPods[key] = struct{}{}
	e.moved = true
}

// join adds a member to a class, which may be a new one.
func (e *Engine) join(signature string, by map[uint32]*selector, ports []NamedPort, preferred uint16) uint16 {
	if signature == "" {
		return 0
	}
	if c := e.classes[preferred]; c != nil && c.signature == signature {
		return e.enter(preferred)
	}
	number, known := e.numbers[signature]
	if preferred != 0 && e.classes[preferred] == nil {
		number, known = preferred, false
	}
	if !known {
		if number = preferred; number == 0 || e.classes[number] != nil {
			number = e.free()
		}
		if number == nobodys {
			return number
		}
		e.classes[number] = &class{signature: signature, selectors: by, ports: ports}
		if _, taken := e.numbers[signature]; !taken {
			e.numbers[signature] = number
		}
		for _, s := range by {
			s.classes[number] = struct{}{}
		}
		e.markClass(number)
	}
	return e.enter(number)
}

// enter counts a member of a class, which may have been empty.
func (e *Engine) enter(number uint16) uint16 {
	c := e.classes[number]
	if c.members++; c.members == 1 {
		e.empty = slices.DeleteFunc(e.empty, func(n uint16) bool { return n == number })
	}
	return number
}

// free returns an unused number, or nobodys.
func (e *Engine) free() uint16 {
	if len(e.classes) > int(e.most) { // counts the class nobodys, too
		return nobodys
	}
	for range e.most {
		e.lastNumber = e.lastNumber%e.most + 1
		if _, recorded := e.dirtyClasses[e.lastNumber]; e.classes[e.lastNumber] == nil && !recorded {
			return e.lastNumber
		}
	}
	return nobodys
}

// classifyWaiting assigns classes to pods that had no number, as far as numbers are free now. The number of a
// former class is free when its deletion has been written. Classes without pods are dropped for the pods that
// still wait.
func (e *Engine) classifyWaiting() {
	full := false
	for _, key := range slices.Sorted(maps.Keys(e.nobody)) {
		p := e.pods[key]
		signature, _, _ := e.selectedBy(p)
		if _, known := e.numbers[signature]; full && !known && signature != "" {
			continue
		}
		e.reclassify(key, 0)
		full = full || p.class == nobodys
	}
	for range min(len(e.empty), len(e.nobody)) {
		e.dropOldest()
	}
}

// leave removes a member from a class. If there are too many empty classes the oldest are dropped.
func (e *Engine) leave(number uint16) {
	c := e.classes[number]
	if c == nil || number == nobodys {
		return
	}
	if c.members--; c.members > 0 {
		return
	}
	e.empty = append(e.empty, number)
	if len(e.empty) > maxEmpty {
		e.dropOldest()
	}
}

// dropOldest drops the class that has been empty for longest.
func (e *Engine) dropOldest() {
	e.drop(e.empty[0])
	e.empty = e.empty[1:]
}

// drop removes a class without members.
func (e *Engine) drop(number uint16) {
	c := e.classes[number]
	e.markClass(number)
	for _, s := range c.selectors {
		delete(s.classes, number)
	}
	if e.numbers[c.signature] == number {
		delete(e.numbers, c.signature)
	}
	delete(e.classes, number)
}

// markClass marks the record of a class, and the rules that name it, as changed.
func (e *Engine) markClass(number uint16) {
	c := e.classes[number]
	c.written = false
	e.dirtyClasses[number] = struct{}{}
	for _, s := range c.selectors {
		for id := range s.policies {
			if e.lists(id, s) {
				e.dirtyPolicies[id] = struct{}{}
			}
		}
	}
	for _, p := range c.ports {
		for id := range e.named[p.Name] {
			e.dirtyPolicies[id] = struct{}{}
		}
	}
}

package classes

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testkit"
)

// universe is pods and policies as chance made them.
type universe struct {
	rand       *rand.Rand
	namespaces map[string]map[string]string
	pods       map[string]Pod // by namespace/name
	policies   map[string]Policy
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func (u *universe) labels() map[string]string {
	l := map[string]string{}
	for _, key := range []string{"app", "tier"} {
		if v := pick(u.rand, "", "a", "b", "c"); v != "" {
			l[key] = v
		}
	}
	return l
}

func (u *universe) selector() (s Selector) {
	for range u.rand.IntN(3) {
		s = append(s, Requirement{pick(u.rand, "app", "tier"), pick(u.rand, In, In, NotIn, Exists, DoesNotExist), []string{pick(u.rand, "a", "b"), pick(u.rand, "b", "c")}})
	}
	return s
}

func (u *universe) podSelector() PodSelector {
	if u.rand.IntN(2) == 0 {
		return PodSelector{Namespace: pick(u.rand, "x", "y"), Pods: u.selector()}
	}
	return PodSelector{Namespaces: u.selector(), Pods: u.selector()}
}

func (u *universe) policy() Policy {
	p := Policy{Subject: u.podSelector(), Tier: pick(u.rand, First, Isolating, Isolating, Last), Priority: u.rand.IntN(3), In: u.rand.IntN(3) > 0}
	p.Out = !p.In || u.rand.IntN(2) == 0
	for range u.rand.IntN(4) {
		r := Rule{Out: p.Out && (!p.In || u.rand.IntN(2) == 0), Verdict: Accept, AnyPeer: u.rand.IntN(4) == 0}
		if p.Tier != Isolating {
			r.Verdict = pick(u.rand, Accept, Deny, Pass)
		}
		for range u.rand.IntN(3) {
			r.Peers = append(r.Peers, u.podSelector())
		}
		for range u.rand.IntN(3) {
			r.Ports = append(r.Ports, pick(u.rand, Port{Protocol: 6, First: 80, Last: 80}, Port{Protocol: 17, First: 1, Last: 90}, Port{Protocol: 6, Name: "web"}, Port{Name: "dns"}))
		}
		p.Rules = append(p.Rules, r)
	}
	return p
}

func (u *universe) change(e *Engine) {
	namespace := pick(u.rand, "x", "y")
	name := fmt.Sprint("p", u.rand.IntN(6))
	key := namespace + "/" + name
	switch u.rand.IntN(9) {
	case 8:
		e.UseAnyPod(u.rand.IntN(2) == 0)
	case 0:
		u.namespaces[namespace] = u.labels()
		e.SetNamespace(namespace, u.namespaces[namespace])
	case 1:
		delete(u.pods, key)
		e.RemovePod(namespace, name)
	case 2, 3, 4:
		p := Pod{Labels: u.labels(), Tenant: pick(u.rand, "", "blue", "red")}
		if u.rand.IntN(2) == 0 {
			p.Ports = append(p.Ports, NamedPort{"web", 6, pick[uint16](u.rand, 80, 81)})
		}
		if u.rand.IntN(2) == 0 {
			p.Ports = append(p.Ports, NamedPort{"dns", pick[uint8](u.rand, 6, 17), 53})
		}
		u.pods[key] = p
		e.SetPod(namespace, name, p)
	case 5:
		delete(u.policies, name)
		e.RemovePolicy(name)
	default:
		u.policies[name] = u.policy()
		e.SetPolicy(name, u.policies[name])
	}
}

// selected reports whether a pod is selected, by the rules of Kubernetes.
func (u *universe) selected(s PodSelector, key string) bool {
	namespace := key[:1]
	if s.Namespace != "" {
		return s.Namespace == namespace && s.Pods.Matches(u.pods[key].Labels)
	}
	return s.Namespaces.Matches(u.namespaces[namespace]) && s.Pods.Matches(u.pods[key].Labels)
}

// admits judges a connection in one direction by the policies themselves.
func (u *universe) admits(from, to string, out bool, protocol uint8, port uint16) bool {
	subject, peer := to, from
	if out {
		subject, peer = from, to
	}
	fits := func(r Rule) bool {
		if r.Out != out || !r.AnyPeer && !slices.ContainsFunc(r.Peers, func(s PodSelector) bool { return u.selected(s, peer) }) {
			return false
		}
		return r.Ports == nil || slices.ContainsFunc(r.Ports, func(p Port) bool {
			if p.Name == "" {
				return p.Protocol == protocol && p.First <= port && port <= p.Last
			}
			return (p.Protocol == 0 || p.Protocol == protocol) && slices.Contains(u.pods[to].Ports, NamedPort{p.Name, protocol, port})
		})
	}
	ids := slices.SortedFunc(maps.Keys(u.policies), func(a, b string) int {
		if d := u.policies[a].Priority - u.policies[b].Priority; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, tier := range []Tier{First, Isolating, Last} {
		isolated := false
	policies:
		for _, id := range ids {
			p := u.policies[id]
			if p.Tier != tier || !u.selected(p.Subject, subject) || out && !p.Out || !out && !p.In {
				continue
			}
			isolated = tier == Isolating
			for _, r := range p.Rules {
				switch {
				case !fits(r):
				case r.Verdict == Accept:
					return true
				case r.Verdict == Deny:
					return false
				default:
					break policies
				}
			}
		}
		if isolated {
			return false
		}
	}
	return true
}

// admits evaluates the written rules.
func (b *book) admits(from, to string, out bool, protocol uint8, port uint16) bool {
	return b.judge(from, to, out, protocol, port, func(r mastercfg.TierRule, peer uint16) bool {
		return r.Anyone() || r.AnyPod && peer != 0 || slices.Contains(r.Peers, peer)
	})
}

// admitsBefore judges by it as an agent does that does not know rules about any pod.
func (b *book) admitsBefore(from, to string, out bool, protocol uint8, port uint16) bool {
	return b.judge(from, to, out, protocol, port, func(r mastercfg.TierRule, peer uint16) bool {
		return r.AnyPeer || slices.Contains(r.Peers, peer)
	})
}

func (b *book) judge(from, to string, out bool, protocol uint8, port uint16, isPeer func(r mastercfg.TierRule, class uint16) bool) bool {
	subject, peer := b.pods[to], b.pods[from]
	if out {
		subject, peer = peer, subject
	}
	class := b.classes[subject]
	judges, isolates := class.JudgesIn, class.IsolatesIn
	if out {
		judges, isolates = class.JudgesOut, class.IsolatesOut
	}
	if !judges {
		return true
	}
	for tier := range 3 {
		var best *mastercfg.TierRule
		for _, rules := range b.policies {
			for _, r := range rules {
				fits := r.Tier == tier && r.Out == out && slices.Contains(r.Subjects, subject) && isPeer(r, peer) &&
					(len(r.Ports) == 0 || slices.ContainsFunc(r.Ports, func(p mastercfg.TierPorts) bool {
						return p.Protocol == protocol && p.First <= port && port <= p.Last
					}))
				if fits && (best == nil || r.Rank < best.Rank) {
					best = &r
				}
			}
		}
		switch {
		case best != nil && best.Verdict == string(Accept):
			return true
		case best != nil && best.Verdict == string(Deny), tier == int(Isolating) && isolates:
			return false
		}
	}
	return true
}

// After any events in any order, the written rules mean the same as the policies.
func TestRulesAboutClassesSayWhatPoliciesSayAboutPods(t *testing.T) { liveThrough(t, 15) }

func TestLongRulesAboutClassesSayWhatPoliciesSayAboutPods(t *testing.T) {
	testkit.TakesLong(t)
	liveThrough(t, 400)
}

func liveThrough(t *testing.T, seeds uint64) {
	for seed := range seeds {
		u := &universe{rand.New(rand.NewPCG(seed, 1)), map[string]map[string]string{"x": {}, "y": {}}, map[string]Pod{}, map[string]Policy{}}
		e, b := New(), newBook()
		e.SetNamespace("x", nil)
		e.SetNamespace("y", nil)
		for step := range 40 {
			u.change(e)
			if u.rand.IntN(3) == 0 {
				continue // several changes at once
			}
			b.write(e)
			u.compare(t, b, fmt.Sprintf("seed %d, step %d", seed, step))
			e.countAgain(t, fmt.Sprintf("seed %d, step %d", seed, step))
		}
		b.write(e)
		u.adopt(t, b, fmt.Sprintf("seed %d, another leader", seed))
	}
}

// countAgain compares the tenants of classes with those of their pods.
func (e *Engine) countAgain(t *testing.T, when string) {
	t.Helper()
	want := map[uint16]map[string]int{}
	for number := range e.classes {
		want[number] = map[string]int{}
	}
	for _, p := range e.pods {
		if p.class != 0 && p.tenant != "" {
			want[p.class][p.tenant]++
		}
	}
	for number, c := range e.classes {
		if !maps.Equal(c.tenants, want[number]) {
			t.Fatalf("%s: class %d has tenants %v, want %v", when, number, c.tenants, want[number])
		}
	}
}

func (u *universe) compare(t *testing.T, b *book, when string) {
	t.Helper()
	for from := range u.pods {
		for to := range u.pods {
			for _, out := range []bool{true, false} {
				for _, at := range []NamedPort{{"", 6, 80}, {"", 6, 81}, {"", 17, 53}, {"", 6, 53}, {"", 17, 90}, {"", 17, 91}, {"", 132, 80}} {
					want, got := u.admits(from, to, out, at.Protocol, at.Number), b.admits(from, to, out, at.Protocol, at.Number)
					if got != want {
						t.Fatalf("%s: %s -> %s, out %v, protocol %d port %d: %v, want %v\n%+v\n%+v\n%+v", when, from, to, out, at.Protocol, at.Number, got, want, u.policies, b.policies, b.classes)
					}
					if !got && b.admitsBefore(from, to, out, at.Protocol, at.Number) {
						t.Fatalf("%s: %s -> %s, out %v, protocol %d port %d: an agent of an earlier version admits it\n%+v", when, from, to, out, at.Protocol, at.Number, b.policies)
					}
				}
			}
		}
	}
}

// begin has a new engine begin with the written records, as another leader does.
func (u *universe) begin(b *book) *Engine {
	e := New()
	e.UseAnyPod(b.isAboutAnyPod())
	for number := range b.classes {
		e.Recorded(number)
	}
	for name, labels := range u.namespaces {
		e.SetNamespace(name, labels)
	}
	for id, p := range u.policies {
		e.SetPolicy(id, p)
	}
	for key, p := range u.pods {
		p.Recorded, p.Classed = b.pods[key], true
		e.SetPod(key[:1], key[2:], p)
	}
	return e
}

// adopt has another leader find nothing to change.
func (u *universe) adopt(t *testing.T, b *book, when string) {
	t.Helper()
	e := u.begin(b)
	before := maps.Clone(b.pods)
	for key := range before {
		if _, there := u.pods[key]; !there {
			delete(before, key)
			delete(b.pods, key)
		}
	}
	c := e.Take()
	if b.anew(c) {
		t.Errorf("%s: connections are judged anew", when)
	}
	b.enter(c)
	u.compare(t, b, when)
	changed := 0
	for key, class := range before {
		if b.pods[key] != class {
			changed++
		}
	}
	if changed > 0 {
		t.Errorf("%s: %d of %d pods have another class", when, changed, len(before))
	}
}

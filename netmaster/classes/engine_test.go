package classes

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

// book is what a store would have after the changes of an engine.
type book struct {
	pods     map[string]uint16
	classes  map[uint16]mastercfg.K8sClass
	policies map[string][]mastercfg.TierRule
	writes   int
}

func newBook() *book {
	return &book{map[string]uint16{}, map[uint16]mastercfg.K8sClass{}, map[string][]mastercfg.TierRule{}, 0}
}

// write enters the changes, and counts what is another than before.
func (b *book) write(e *Engine) (moved bool) {
	c := e.Take()
	for key, class := range c.Pods {
		if old, had := b.pods[key]; !had || old != class {
			b.writes++
		}
		b.pods[key] = class
	}
	for id, policy := range c.Policies {
		old, had := b.policies[id]
		if policy == nil {
			delete(b.policies, id)
			continue
		}
		rules := policy.Rules
		if !had || !reflect.DeepEqual(old, rules) {
			b.writes++
		}
		b.policies[id] = rules
	}
	for number, class := range c.Classes {
		old, had := b.classes[number]
		if class == nil {
			delete(b.classes, number)
			continue
		}
		if !had || old != *class {
			b.writes++
		}
		b.classes[number] = *class
	}
	e.Written(c)
	return c.Moved
}

func labelled(key, value string) Selector { return Selector{{key, In, []string{value}}} }

// A pod that comes, goes or gets other labels is one write; so a thousand others cost nothing.
func TestAPodIsOneWrite(t *testing.T) {
	e, b := New(), newBook()
	e.SetNamespace("shop", nil)
	for i := range 1000 {
		e.SetPod("shop", fmt.Sprint("web", i), Pod{Labels: map[string]string{"app": "web"}})
	}
	e.SetPod("shop", "db", Pod{Labels: map[string]string{"app": "db"}})
	e.SetPolicy("p", Policy{Subject: PodSelector{Namespace: "shop", Pods: labelled("app", "db")}, Tier: Isolating, In: true,
		Rules: []Rule{{Verdict: Accept, Peers: []PodSelector{{Namespace: "shop", Pods: labelled("app", "web")}}}}})
	b.write(e)
	step := func(what string, writes int, moves bool, change func()) {
		t.Helper()
		before := b.writes
		change()
		if moved := b.write(e); b.writes-before != writes || moved != moves {
			t.Errorf("%s: %d writes, moved %v; want %d, %v", what, b.writes-before, moved, writes, moves)
		}
	}
	step("a pod comes", 1, false, func() { e.SetPod("shop", "new", Pod{Labels: map[string]string{"app": "web"}}) })
	step("it changes its class", 1, true, func() { e.SetPod("shop", "new", Pod{Labels: map[string]string{"app": "db"}}) })
	step("it gets a label that nothing selects", 0, false, func() { e.SetPod("shop", "new", Pod{Labels: map[string]string{"app": "db", "v": "2"}}) })
	step("it goes", 0, false, func() { e.RemovePod("shop", "new") })
	step("the last pod of a class goes and comes", 1, false, func() {
		e.RemovePod("shop", "db")
		delete(b.pods, "shop/db")
		e.SetPod("shop", "db", Pod{Labels: map[string]string{"app": "db"}})
	})
}

// A name of ports that some pods of a class have, with different numbers, takes no others with it.
func TestANameOfPortsTellsPodsApart(t *testing.T) {
	e, b := New(), newBook()
	e.SetNamespace("shop", nil)
	for name, ports := range map[string][]NamedPort{"a": {{"dns", 6, 53}}, "b": {{"dns", 17, 53}}, "c": nil} {
		e.SetPod("shop", name, Pod{Ports: ports})
	}
	e.SetPolicy("p", Policy{Subject: PodSelector{Namespace: "shop"}, Tier: Isolating, In: true, Rules: []Rule{{Verdict: Accept, AnyPeer: true, Ports: []Port{{Name: "dns"}}}}})
	b.write(e)
	for key, port := range map[string][2]bool{"shop/a": {true, false}, "shop/b": {false, true}, "shop/c": {}} {
		if got := [2]bool{b.admits("shop/c", key, false, 6, 53), b.admits("shop/c", key, false, 17, 53)}; got != port {
			t.Errorf("%s at TCP and UDP: %v, want %v", key, got, port)
		}
	}
}

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
	switch u.rand.IntN(8) {
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

// selected tells whether a pod is selected, by what Kubernetes says.
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

// admits judges by what is written.
func (b *book) admits(from, to string, out bool, protocol uint8, port uint16) bool {
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
				fits := r.Tier == tier && r.Out == out && slices.Contains(r.Subjects, subject) && (r.AnyPeer || slices.Contains(r.Peers, peer)) &&
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

// Whatever happens in whatever order, what is written says the same as the policies.
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
				}
			}
		}
	}
}

// adopt has a new engine begin with what is written, as another leader does.
func (u *universe) adopt(t *testing.T, b *book, when string) {
	t.Helper()
	e := New()
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
		p.Recorded = b.pods[key]
		e.SetPod(key[:1], key[2:], p)
	}
	before := maps.Clone(b.pods)
	for key := range before {
		if _, there := u.pods[key]; !there {
			delete(before, key)
			delete(b.pods, key)
		}
	}
	b.write(e)
	u.compare(t, b, when)
	changed := 0
	for key, class := range before {
		if b.pods[key] != class {
			changed++
		}
	}
	if changed > 0 {
		t.Logf("%s: %d of %d pods have another class", when, changed, len(before))
	}
}

// ordered is a policy of the first tier with one rule of a verdict.
func ordered(priority int, v Verdict, ports ...Port) Policy {
	return Policy{Tier: First, Priority: priority, In: true, Rules: []Rule{{Verdict: v, AnyPeer: true, Ports: ports}}}
}

// A policy moves no others but those that have its priority.
func TestAPlaceAmongPoliciesIsTheirPriority(t *testing.T) {
	e, b := New(), newBook()
	e.SetNamespace("shop", nil)
	e.SetPod("shop", "web", Pod{Labels: map[string]string{"app": "web"}})
	step := func(what string, writes int, change func(), want map[string]int) {
		t.Helper()
		before := b.writes
		change()
		b.write(e)
		got := map[string]int{}
		for id, rules := range b.policies {
			got[id] = rules[0].Rank
		}
		if !maps.Equal(got, want) || b.writes-before != writes {
			t.Errorf("%s: ranks %v after %d writes, want %v after %d", what, got, b.writes-before, want, writes)
		}
	}
	step("the first", 3, func() { e.SetPolicy("m", ordered(10, Deny)) }, map[string]int{"m": 250}) // and a pod, and its class
	step("one before it", 1, func() { e.SetPolicy("z", ordered(3, Deny)) }, map[string]int{"z": 75, "m": 250})
	step("one of its priority", 2, func() { e.SetPolicy("a", ordered(10, Deny)) }, map[string]int{"z": 75, "a": 250, "m": 275})
	step("one whose place is taken", 1, func() { e.SetPolicy("b", ordered(11, Deny)) }, map[string]int{"z": 75, "a": 250, "m": 275, "b": 300})
	step("another priority", 3, func() { e.SetPolicy("a", ordered(12, Deny)) }, map[string]int{"z": 75, "m": 250, "b": 275, "a": 300})
	step("the first goes", 0, func() { e.RemovePolicy("z") }, map[string]int{"m": 250, "b": 275, "a": 300})
}

// What is too large for a switch denies.
func TestAPolicyThatIsTooLargeDenies(t *testing.T) {
	if last := (lastPlace + 1) * rulesOfPolicy; last != int(pipeline.MaxRank) {
		t.Errorf("the last rank is %d, that of switches %d", last, pipeline.MaxRank)
	}
	e := New()
	e.SetNamespace("shop", nil)
	e.SetPod("shop", "web", Pod{Ports: []NamedPort{{"web", 6, 80}}})
	for i := range MaxRules + 1 {
		e.SetPod("shop", fmt.Sprint("odd", i), Pod{Ports: []NamedPort{{"odd", 6, uint16(i + 1)}}})
	}
	const first = lastPlace - 99 // of hundred places for the p's
	for i := range lastPlace - first + 1 {
		e.SetPolicy(fmt.Sprintf("p%02d", i), ordered(first, Pass))
	}
	e.SetPolicy("q", ordered(lastPlace, Accept))
	e.SetPolicy("accepts", ordered(first, Accept, Port{Name: "odd"}, Port{Protocol: 6, First: 1, Last: 2}))
	e.SetPolicy("denies", ordered(first, Deny, Port{Name: "odd"}))
	many := ordered(first, Accept)
	for range rulesOfPolicy {
		many.Rules = append(many.Rules, many.Rules[0])
	}
	e.SetPolicy("many", many)
	changes := e.Take()
	for id, want := range map[string]string{"q": "deny any", "accepts": "", "denies": "deny any", "many": "deny any", "p95": "pass any", "p96": "pass any", "p97": "deny any", "p99": "deny any"} {
		got := ""
		for _, r := range changes.Policies[id].Rules {
			if len(r.Ports) == 0 && r.AnyPeer {
				got += r.Verdict + " any"
			} else {
				got += fmt.Sprintf("%+v", r)
			}
			if r.Out || r.Rank > int(pipeline.MaxRank) {
				t.Errorf("%s: %+v", id, r)
			}
		}
		if _, told := changes.TooLarge[id]; got != want || told != (want != "pass any") {
			t.Errorf("%s: %q, told %v; want %q", id, got, told, want)
		}
	}
}

// Who has a name, agents find out. A rule of nothing but names has peers, too.
func TestARuleAboutNamesKeepsThem(t *testing.T) {
	e := New()
	e.SetNamespace("shop", nil)
	e.SetPod("shop", "web", Pod{})
	names := []string{"example.org", "*.example.org"}
	e.SetPolicy("names", Policy{Tier: First, Out: true, Rules: []Rule{{Out: true, Verdict: Accept, Names: names}, {Out: true, Verdict: Accept}, {Out: true, Verdict: Deny, AnyPeer: true}}})
	rules := e.Take().Policies["names"].Rules
	if len(rules) != 2 || !slices.Equal(rules[0].Names, names) || rules[1].Names != nil || rules[1].Rank != rules[0].Rank+2 {
		t.Errorf("%+v", rules)
	}
}

func TestExceptionsArePartsOfANetwork(t *testing.T) {
	nets := func(texts ...string) (all []netip.Prefix) {
		for _, text := range texts {
			all = append(all, netip.MustParsePrefix(text))
		}
		return all
	}
	for _, c := range []struct{ net, except, want []netip.Prefix }{
		{nets("10.0.0.0/30"), nil, nets("10.0.0.0/30")},
		{nets("10.0.0.0/30"), nets("10.0.0.1/32"), nets("10.0.0.0/32", "10.0.0.2/31")},
		{nets("10.0.0.0/30"), nets("10.0.0.1/32", "10.0.0.2/31"), nets("10.0.0.0/32")},
		{nets("10.0.0.0/30"), nets("10.0.0.0/30"), nil},
		{nets("10.0.0.0/30"), nets("10.0.0.0/8"), nil},
		{nets("10.0.0.0/30"), nets("11.0.0.0/32", "fd00::/8"), nets("10.0.0.0/30")},
		{nets("fd00::/126"), nets("fd00::3/128"), nets("fd00::/127", "fd00::2/128")},
	} {
		if got := Without(c.net[0], c.except); !slices.Equal(got, c.want) {
			t.Errorf("%v without %v: %v, want %v", c.net, c.except, got, c.want)
		}
	}
	if got := Without(netip.MustParsePrefix("0.0.0.0/0"), nets("10.1.2.3/32")); len(got) != 32 {
		t.Errorf("%d prefixes", len(got))
	}
}

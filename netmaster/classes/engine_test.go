package classes

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

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

// write enters what an engine has changed.
func (b *book) write(e *Engine) (moved bool) {
	c := e.Take()
	b.enter(c)
	e.Written(c)
	return c.Moved
}

// enter enters the changes, and counts the records that differ from before.
func (b *book) enter(c Changes) {
	for key, class := range c.Pods {
		if old, had := b.pods[key]; !had || old != class.Number {
			b.writes++
		}
		b.pods[key] = class.Number
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
}

func labelled(key, value string) Selector { return Selector{{key, In, []string{value}}} }

// A pod that is added, deleted or gets other labels is one write; so a thousand others cost nothing.
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

// What was not written is to be written again, and connections are to be judged again then.
func TestChangesThatWereNotWrittenAreTakenAgain(t *testing.T) {
	e, b := New(), newBook()
	e.SetNamespace("shop", nil)
	e.SetPolicy("p", Policy{Subject: PodSelector{Namespace: "shop", Pods: labelled("app", "db")}, Tier: Isolating, In: true})
	e.SetPod("shop", "new", Pod{Labels: map[string]string{"app": "web"}})
	b.write(e)
	e.SetPod("shop", "new", Pod{Labels: map[string]string{"app": "db"}})
	first := e.Take()
	e.Failed(first)
	if again := e.Take(); !first.Moved || !reflect.DeepEqual(first, again) {
		t.Errorf("at first %+v, and again %+v", first, again)
	}
}

// A policy that tells pods apart moves none of them: what is admitted of their connections follows from the policy's own change.
func TestASelectorThatSplitsAClassMovesNoPod(t *testing.T) {
	e, b := New(), newBook()
	e.SetNamespace("shop", nil)
	e.SetPolicy("all", Policy{Subject: PodSelector{Namespace: "shop"}, Tier: Isolating, In: true})
	e.SetPod("shop", "db", Pod{Labels: map[string]string{"app": "db"}})
	e.SetPod("shop", "web", Pod{Labels: map[string]string{"app": "web"}})
	b.write(e)
	e.SetPolicy("db", Policy{Subject: PodSelector{Namespace: "shop", Pods: labelled("app", "db")}, Tier: Isolating, In: true})
	if moved := b.write(e); moved || b.pods["shop/db"] == b.pods["shop/web"] {
		t.Errorf("moved %v, classes %v", moved, b.pods)
	}
}

// The record of a class that changes while it is written says something else than what holds now: agents are not told of the class yet.
func TestAClassThatChangesWhileItIsWrittenIsNotKnownYet(t *testing.T) {
	e, b := New(), newBook()
	subject := PodSelector{Namespace: "shop", Pods: labelled("app", "db")}
	e.SetNamespace("shop", nil)
	e.SetPolicy("in", Policy{Subject: subject, Tier: Isolating, In: true})
	e.SetPod("shop", "db", Pod{Labels: map[string]string{"app": "db"}})
	writing := e.Take()
	e.SetPolicy("out", Policy{Subject: subject, Tier: Isolating, Out: true})
	e.Written(writing)
	if class, known := e.Class("shop", "db", ""); known {
		t.Errorf("class %d is known", class)
	}
	b.write(e)
	if class, known := e.Class("shop", "db", ""); !known || !b.classes[class].IsolatesOut {
		t.Errorf("class %d is known: %v, as %+v", class, known, b.classes[class])
	}
}

// Policies may select a pod by the labels of its namespace: before these are known it has no class, not the class of those that nothing
// selects.
func TestAPodHasNoClassBeforeItsNamespaceIsKnown(t *testing.T) {
	e, b := New(), newBook()
	e.SetPod("shop", "db", Pod{Labels: map[string]string{"app": "db"}})
	b.write(e)
	if class, known := e.Class("shop", "db", ""); known {
		t.Errorf("it is of class %d", class)
	}
	e.SetNamespace("shop", nil)
	if class, known := e.Class("shop", "db", ""); class != 0 || !known {
		t.Errorf("it is of class %d, known %v", class, known)
	}
}

// A pod that has the name of another one, as of a StatefulSet, has a class of its own to be written, also if it is
// the same one.
func TestAPodThatHasTheNameOfAnotherIsAnotherOne(t *testing.T) {
	e, b := New(), newBook()
	e.SetNamespace("shop", nil)
	e.SetPolicy("p", Policy{Subject: PodSelector{Namespace: "shop", Pods: labelled("app", "db")}, Tier: Isolating, In: true})
	e.SetPod("shop", "app-0", Pod{UID: "u1", Tenant: "blue", Labels: map[string]string{"app": "db"}})
	b.write(e)
	for _, c := range []struct {
		pod    Pod
		listed bool
	}{
		{Pod{UID: "u2", Tenant: "blue", Labels: map[string]string{"app": "db"}}, true},
		{Pod{UID: "u3", Tenant: "red", Labels: map[string]string{"app": "web"}}, false},
	} {
		before := e.pods["shop/app-0"]
		e.SetPod("shop", "app-0", c.pod)
		if number, known := e.Class("shop", "app-0", before.uid); known {
			t.Errorf("the one of before, %s, is of class %d", before.uid, number)
		}
		changes := e.Take()
		e.Written(changes)
		if got, want := changes.Pods["shop/app-0"], (PodClass{c.pod.UID, e.pods["shop/app-0"].class}); got != want || (got.Number != 0) != c.listed || changes.Moved {
			t.Errorf("%+v is written as %+v, want %+v; connections of others are judged anew: %v", c.pod, got, want, changes.Moved)
		}
		if got := len(e.podsIn["shop"]); got != 1 || e.tenants[c.pod.Tenant] != 1 || len(e.tenants) != 1 {
			t.Errorf("%d pods, of tenants %v", got, e.tenants)
		}
	}
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
	e.SetPolicy("leaves", ordered(first-1, Pass, Port{Name: "odd"}))
	many := ordered(first, Accept)
	for range rulesOfPolicy {
		many.Rules = append(many.Rules, many.Rules[0])
	}
	e.SetPolicy("many", many)
	changes := e.Take()
	for id, want := range map[string]string{"q": "deny any", "accepts": "", "denies": "deny any", "leaves": "deny any", "many": "deny any", "p95": "pass any", "p96": "pass any", "p97": "deny any", "p99": "deny any"} {
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

// A policy of an ordered tier may have as many rules in each direction as the API permits, 25.
func TestAPolicyHasRoomForAsManyRulesAsItMayHave(t *testing.T) {
	e := New()
	e.SetNamespace("shop", nil)
	e.SetPod("shop", "web", Pod{})
	for what, c := range map[string]struct {
		in, out, want int
	}{"full": {rulesOfPolicy, rulesOfPolicy, 2 * rulesOfPolicy}, "one more": {rulesOfPolicy + 1, 0, 1}, "one more egress rule": {1, rulesOfPolicy + 1, 2}} {
		p := Policy{Tier: First, In: c.in > 0, Out: c.out > 0}
		for i := range c.in + c.out {
			p.Rules = append(p.Rules, Rule{Out: i >= c.in, Verdict: Accept, AnyPeer: true})
		}
		e.SetPolicy("p", p)
		changes := e.Take()
		ranks := map[bool]map[int]bool{false: {}, true: {}}
		for _, r := range changes.Policies["p"].Rules {
			ranks[r.Out][r.Rank] = true
		}
		if got, tooLarge := len(ranks[false])+len(ranks[true]), changes.TooLarge["p"]; got != c.want || (tooLarge == "") != (what == "full") {
			t.Errorf("%s: %d rules of different ranks, want %d; too large: %q", what, got, c.want, tooLarge)
		}
	}
}

// Agents resolve names. A rule of names only has peers, too.
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
		if got, ok := Without(c.net[0], c.except, MaxNets); !ok || !slices.Equal(got, c.want) {
			t.Errorf("%v without %v: %v, want %v", c.net, c.except, got, c.want)
		}
	}
	if got, ok := Without(netip.MustParsePrefix("0.0.0.0/0"), nets("10.1.2.3/32"), 32); !ok || len(got) != 32 {
		t.Errorf("%d prefixes", len(got))
	}
	if got, ok := Without(netip.MustParsePrefix("0.0.0.0/0"), nets("10.1.2.3/32"), 31); ok || got != nil {
		t.Errorf("%d prefixes, and 31 may be", len(got))
	}
}

// The author of a namespace's policies may write exceptions, as many as an object holds.
func TestExceptionsTakeTimeInProportion(t *testing.T) {
	const count, most = 5000, 5 * time.Second // of a processor: 0.3 s; 20 if each were compared with each
	chance := rand.New(rand.NewPCG(1, 1))
	var except []netip.Prefix
	for range count {
		raw := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, chance.Uint64()), chance.Uint64())
		except = append(except, netip.PrefixFrom(netip.AddrFrom16([16]byte(raw)), 128))
	}
	var rest []netip.Prefix
	var ok bool
	took := testkit.Processor(t, func() { rest, ok = Without(netip.MustParsePrefix("::/0"), except, math.MaxInt) })
	if !ok || len(rest) < 100*count || took > most {
		t.Errorf("%d exceptions leave %d prefixes, after %v", count, len(rest), took)
	}
}

package classes

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
)

// A policy for which there is no room allows nothing; when others go, it applies.
func TestPoliciesThatAreTooManyAllowNothing(t *testing.T) {
	e, b := New(), newBook()
	e.SetNamespace("shop", nil)
	e.SetPod("shop", "db", Pod{Labels: map[string]string{"app": "db"}})
	rules := make([]Rule, MaxRules/2)
	for i := range rules {
		rules[i] = Rule{Verdict: Accept, AnyPeer: true, Ports: []Port{{Protocol: 6, First: uint16(i + 1), Last: uint16(i + 1)}}}
	}
	policy := func(rules []Rule) Policy {
		return Policy{Subject: PodSelector{Namespace: "shop", Pods: labelled("app", "db")}, Tier: Isolating, In: true, Rules: rules}
	}
	step := func(what string, left int, want ...int) {
		t.Helper()
		b.write(e)
		held := slices.DeleteFunc([]string{"p0", "p1", "p2"}, func(id string) bool { left, _ := e.Holds(id); return !left })
		if len(held) != left {
			t.Errorf("%s: %q are left out, want %d", what, held, left)
		}
		for i, n := range want {
			if got := len(b.policies[fmt.Sprint("p", i)]); got != n {
				t.Errorf("%s: p%d has %d rules, want %d", what, i, got, n)
			}
		}
	}
	e.SetPolicy("p0", policy(rules))
	e.SetPolicy("p1", policy(rules))
	step("as many as there can be", 0, MaxRules/2, MaxRules/2)
	e.SetPolicy("guests", Policy{Subject: PodSelector{Namespace: "guests"}, Tier: Isolating, In: true, Rules: []Rule{{Verdict: Accept, Peers: []PodSelector{{Namespace: "shop", Pods: labelled("app", "db")}}}}})
	e.SetPolicy("admin", Policy{Subject: PodSelector{Namespace: "shop", Pods: labelled("app", "db")}, Tier: First, In: true, Rules: rules[:1]})
	step("rules of which it is a peer, and of an ordered tier, do not count", 0, MaxRules/2, MaxRules/2)
	e.SetPolicy("p2", policy(rules[:1]))
	step("one more", 1, MaxRules/2, MaxRules/2, 0)
	e.SetPod("shop", "web", Pod{Labels: map[string]string{"app": "web"}})
	e.SetPolicy("p0", policy(rules[1:]))
	step("there is room again", 0, MaxRules/2-1, MaxRules/2, 1)
	e.SetPolicy("p0", policy(rules))
	step("and not", 1, MaxRules/2, MaxRules/2, 0)
	e.RemovePolicy("p0")
	step("one goes", 0, 0, MaxRules/2, 1)
}

// Each direction has room of its own.
func TestRulesAreCountedByDirection(t *testing.T) {
	e, b := New(), newBook()
	e.SetNamespace("shop", nil)
	e.SetPod("shop", "db", Pod{})
	set := func(id string, out bool, count int) {
		p := Policy{Subject: PodSelector{Namespace: "shop"}, Tier: Isolating, In: !out, Out: out}
		for i := range count {
			r := Rule{Out: out, Verdict: Accept, AnyPeer: true}
			if i%2 == 0 { // a rule without ports counts, too
				r.Ports = []Port{{Protocol: 6, First: uint16(i + 1), Last: uint16(i + 1)}}
			}
			p.Rules = append(p.Rules, r)
		}
		e.SetPolicy(id, p)
	}
	for _, c := range []struct{ in, out int }{{MaxRules, MaxRules}, {MaxRules + 1, 1}, {1, MaxRules + 1}, {MaxRules, MaxRules + 1}} {
		set("in", false, c.in)
		set("out", true, c.out)
		b.write(e)
		for id, count := range map[string]int{"in": c.in, "out": c.out} {
			want := count
			if count > MaxRules {
				want = 0
			}
			if left, _ := e.Holds(id); left != (want == 0) || len(b.policies[id]) != want {
				t.Errorf("%+v: policy %s is left out: %v, with %d rules", c, id, left, len(b.policies[id]))
			}
		}
	}
}

// A name of ports counts as the rules that it becomes, whichever pods have the ports.
func TestNamesOfPortsCountAsTheRulesThatTheyBecome(t *testing.T) {
	e, b := New(), newBook()
	e.SetNamespace("shop", nil)
	e.SetNamespace("other", nil)
	own := PodSelector{Namespace: "shop"}
	e.SetPolicy("dns", Policy{Subject: own, Tier: Isolating, Out: true, Rules: []Rule{{Out: true, Verdict: Accept, AnyPeer: true, Ports: []Port{{Name: "dns"}}}}})
	for _, app := range []string{"a", "b"} { // two classes
		e.SetPolicy(app, Policy{Subject: PodSelector{Namespace: "shop", Pods: labelled("app", app)}, Tier: Isolating, In: true})
		e.SetPod("shop", app, Pod{Labels: map[string]string{"app": app}})
	}
	pod := func(i, ports int) (p Pod) {
		for n := range ports {
			p.Ports = append(p.Ports, NamedPort{"dns", 17, uint16(i*maxNumbers + n + 1)})
		}
		return p
	}
	step := func(what string, rules int, left bool) {
		t.Helper()
		b.write(e)
		if got, _ := e.Holds("dns"); got != left {
			t.Errorf("%s: it is left out: %v, want %v", what, got, left)
		}
		if got := len(b.policies["dns"]); got != rules {
			t.Errorf("%s: %d rules, want %d", what, got, rules)
		}
	}
	e.SetPod("other", "0", pod(0, MaxRules+1))
	step("one pod with a name for many ports", maxNumbers, false)
	for i := range MaxRules/maxNumbers - 1 {
		e.SetPod("other", fmt.Sprint(i+1), pod(i+1, maxNumbers))
	}
	step("as many as there can be", MaxRules, false)
	e.SetPod("other", "more", pod(MaxRules/maxNumbers, 1))
	step("one more", 0, true)
	e.SetPod("other", "still more", pod(MaxRules/maxNumbers+1, 1))
	step("two more", 0, true)
	for i := range 2 * maxEmpty {
		e.RemovePod("other", fmt.Sprint(i))
	}
	step("there is room again", MaxRules+2-maxNumbers*maxEmpty, false)
}

// A name that no policy uses no longer separates classes.
func TestNamesThatNoPolicyUsesAreForgotten(t *testing.T) {
	e, b := New(), newBook()
	e.SetNamespace("shop", nil)
	e.SetPod("shop", "web", Pod{Ports: []NamedPort{{"http", 6, 80}, {"https", 6, 443}}})
	for step, names := range [][]string{{"http", "https"}, {"https"}, nil} {
		p := Policy{Subject: PodSelector{Namespace: "nowhere"}, Tier: Isolating, In: true}
		for _, name := range names {
			p.Rules = append(p.Rules, Rule{Verdict: Accept, AnyPeer: true, Ports: []Port{{Name: name}}})
		}
		e.SetPolicy("p", p)
		b.write(e)
		if got := len(e.named); got != len(names) {
			t.Errorf("step %d: %d names are known, want %q", step, got, names)
		}
		if class, known := e.Class("shop", "web", ""); !known || class == 0 != (len(names) == 0) {
			t.Errorf("step %d: the pod is of class %d, known %v", step, class, known)
		}
	}
}

// Pods whose class has no number get a class that is never written, and no other's number.
func TestPodsWithoutANumberForTheirClassAreIsolated(t *testing.T) {
	const bits = 4 // selectors, so that there are one class too many for the numbers
	e, b := New(), newBook()
	e.most = 1<<bits - 2
	e.SetNamespace("shop", nil)
	for i := range bits {
		e.SetPolicy(fmt.Sprint("p", i), Policy{Subject: PodSelector{Namespace: "shop", Pods: Selector{{fmt.Sprint(i), Exists, nil}}}, Tier: Isolating, In: true})
	}
	for n := 1; n < 1<<bits; n++ {
		labels := map[string]string{}
		for i := range bits {
			if n>>i&1 == 1 {
				labels[fmt.Sprint(i)] = ""
			}
		}
		e.SetPod("shop", fmt.Sprint(n), Pod{Labels: labels})
	}
	e.RevisitAll()
	b.write(e)
	last := fmt.Sprint("shop/", 1<<bits-1)
	if _, written := b.classes[nobodys]; written || b.pods[last] != nobodys || len(b.classes) != int(e.most) {
		t.Fatalf("%d classes are written; the last pod is of class %d", len(b.classes), b.pods[last])
	}
	e.RemovePod("shop", fmt.Sprint(1<<bits-1))
	e.SetPod("shop", "1", Pod{})
	b.write(e)
	if b.pods["shop/1"] != 0 || b.pods["shop/2"] == nobodys {
		t.Errorf("pods are of classes %d, %d", b.pods["shop/1"], b.pods["shop/2"])
	}
}

// They get their classes when numbers become free, and none once no policy selects them.
func TestPodsWithoutANumberGetOneThatIsFree(t *testing.T) {
	e, b := New(), newBook()
	e.most = 1
	e.SetNamespace("shop", nil)
	step := func(what string, want map[string]uint16, moved bool) {
		t.Helper()
		if got := b.write(e); got != moved || !maps.Equal(b.pods, want) {
			t.Errorf("%s: classes %v, moved %v; want %v, %v", what, b.pods, got, want, moved)
		}
		e.countAgain(t, what)
	}
	for _, name := range []string{"a", "b", "c"} {
		e.SetPolicy(name, Policy{Subject: PodSelector{Namespace: "shop", Pods: labelled("app", name)}, Tier: Isolating, In: true})
		e.SetPod("shop", name, Pod{Labels: map[string]string{"app": name}, Tenant: "blue"})
	}
	step("one has a number", map[string]uint16{"shop/a": 1, "shop/b": nobodys, "shop/c": nobodys}, false)
	step("nothing happens", map[string]uint16{"shop/a": 1, "shop/b": nobodys, "shop/c": nobodys}, false)
	e.RemovePolicy("a")
	step("its class goes", map[string]uint16{"shop/a": 0, "shop/b": nobodys, "shop/c": nobodys}, false)
	step("its number is free", map[string]uint16{"shop/a": 0, "shop/b": 1, "shop/c": nobodys}, true)
	e.RemovePolicy("b")
	e.RemovePolicy("c")
	step("nothing selects them", map[string]uint16{"shop/a": 0, "shop/b": 0, "shop/c": 0}, true)
}

// A class is not kept for its next pod while others wait for its number.
func TestPodsWithoutANumberGetThatOfAClassWithoutPods(t *testing.T) {
	e, b := New(), newBook()
	e.most = 1
	e.SetNamespace("shop", nil)
	for _, name := range []string{"a", "b"} {
		e.SetPolicy(name, Policy{Subject: PodSelector{Namespace: "shop", Pods: labelled("app", name)}, Tier: Isolating, In: true})
		e.SetPod("shop", name, Pod{Labels: map[string]string{"app": name}})
	}
	b.write(e)
	e.RemovePod("shop", "a")
	b.write(e)
	if _, still := b.classes[1]; still || b.pods["shop/b"] != nobodys {
		t.Errorf("the class of nobody is written: %v, the pod that waits is of class %d", still, b.pods["shop/b"])
	}
	b.write(e)
	if got := b.pods["shop/b"]; got != 1 {
		t.Errorf("the pod that waits is of class %d", got)
	}
}

// A pod whose labels change and change back is of the class that its record has had all the time; that is no class
// without pods.
func TestAClassThatAPodComesBackToIsNotForgotten(t *testing.T) {
	e, b := New(), newBook()
	e.SetNamespace("shop", nil)
	pod := func(name, app string, recorded uint16) {
		e.SetPod("shop", name, Pod{Labels: map[string]string{"app": app}, Recorded: recorded, Classed: recorded != 0})
	}
	for i := range maxEmpty + 2 {
		app := fmt.Sprint("app", i)
		e.SetPolicy(app, Policy{Subject: PodSelector{Namespace: "shop", Pods: labelled("app", app)}, Tier: Isolating, In: true})
	}
	pod("db", "app0", 0)
	b.write(e)
	class := b.pods["shop/db"]
	for range 3 { // as a primary that fails over and back
		pod("db", "none", class)
		b.write(e)
		pod("db", "app0", class)
		b.write(e)
	}
	for i := range maxEmpty + 1 {
		pod("other", fmt.Sprint("app", i+1), 0)
	}
	e.RemovePod("shop", "other")
	b.write(e)
	if _, recorded := b.classes[class]; !recorded || b.pods["shop/db"] != class {
		t.Errorf("the pod is of class %d, was of %d, which is recorded: %v", b.pods["shop/db"], class, recorded)
	}
	pod("db", "app1", class) // a class of nothing would be left
	b.write(e)
	if now, known := e.Class("shop", "db", ""); len(e.empty) > maxEmpty || now == class || !known {
		t.Errorf("%d classes are empty, the pod is of class %d, known: %v", len(e.empty), now, known)
	}
}

// A record that the store refuses would keep all policies from being written.
func TestAPolicyWhoseRecordIsTooLargeAllowsNothing(t *testing.T) {
	e := New()
	e.SetNamespace("shop", nil)
	e.SetPod("shop", "web", Pod{Labels: map[string]string{"app": "web"}})
	nets := func(count int) (all []netip.Prefix) {
		for i := range count {
			raw := [16]byte{0: 0xfd, 14: byte(i >> 8), 15: byte(i)}
			for at := 1; at < 14; at++ {
				raw[at] = 0xff // the longest texts
			}
			all = append(all, netip.PrefixFrom(netip.AddrFrom16(raw), 128))
		}
		return all
	}
	policy := func(tier Tier, nets []netip.Prefix) Policy {
		return Policy{Subject: PodSelector{Namespace: "shop"}, Tier: tier, In: true, Out: true,
			Rules: []Rule{{Verdict: Accept, AnyPeer: true}, {Out: true, Verdict: Accept, Nets: nets}}}
	}
	fits := maxRecord / 48
	e.SetPolicy("fits", policy(Isolating, nets(fits)))
	e.SetPolicy("nets", policy(Isolating, nets(2*fits)))
	e.SetPolicy("denies", policy(First, nets(2*fits)))
	changes := e.Take()
	for id, want := range map[string]int{"fits": 2, "nets": 0, "denies": 2} {
		record := changes.Policies[id]
		text, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		if got, told := len(record.Rules), changes.TooLarge[id] != ""; got != want || told != (id != "fits") || len(text) > maxRecord {
			t.Errorf("%s: %d rules of %d bytes, told %v; want %d", id, got, len(text), told, want)
		}
	}
	for _, r := range changes.Policies["denies"].Rules {
		if r.Verdict != string(Deny) || !r.AnyPeer || r.Nets != nil {
			t.Errorf("%s, of any peer %v, %d networks", r.Verdict, r.AnyPeer, len(r.Nets))
		}
	}
}
